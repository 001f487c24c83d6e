//===- Import.cpp - Import of ONNX files ----------------------------------===//

#include "binade/Import/ONNX/Import.h"
#include "Accumulators.h"
#include "DefineInitializers.h"
#include "ImportNode.h"
#include "InlineFunctions.h"
#include "Loss.h"
#include "OpTable.h"
#include "binade/IR/DescribeTensor.h"
#include "binade/IR/EraseDead.h"
#include "binade/ONNX/CheckModel.h"
#include "binade/ONNX/Order.h"
#include "binade/ONNX/RestoreParameters.h"
#include "mlir/IR/Verifier.h"
#include "onnx-ml.pb.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
/// Imports one model; the methods are in the order of the steps.
class Importer {
public:
  Importer(Model &model, const ImportOptions &options, ImportReport &report)
      : model(model), options(options), report(report),
        tensors(model, options.allowHardLinks) {}

  FailureOr<OwningOpRef<ModuleOp>> run();

private:
  void createFunction();
  LogicalResult addBatch(Graph &graph);
  LogicalResult importNodes(Graph &graph);
  LogicalResult addResults(Graph &graph);
  FailureOr<Value> getLoss(Graph &graph, std::string &name);

  Model &model;
  const ImportOptions &options;
  ImportReport &report;
  TensorReader tensors;
  Dimensions dimensions;
  SmallVector<unsigned> order;
  llvm::StringSet<> used;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
};
} // namespace

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

void Importer::createFunction() {
  MLIRContext *context = model.getContext();
  OpBuilder b(context);
  // Errors without a location are reported for the file.
  module = ModuleOp::create(b, b.getUnknownLoc());
  Location loc = getGraphLoc(context, model.getGraph().name());
  b.setInsertionPointToEnd(module->getBody());
  function =
      func::FuncOp::create(b, loc, kForwardName, b.getFunctionType({}, {}));
  b.setInsertionPointToEnd(function.addEntryBlock());
  func::ReturnOp::create(b, loc);
}

LogicalResult Importer::addBatch(Graph &graph) {
  llvm::StringSet<> names;
  SmallVector<NewArgument> arguments;
  for (const auto &input : model.getGraph().input()) {
    if (graph.lookup(input.name()) || !names.insert(input.name()).second)
      continue;
    FailureOr<RankedTensorType> type = dimensions.getType(model, input);
    if (failed(type))
      return failure();
    arguments.push_back(makeArgument(input.name(), *type));
  }
  graph.addArguments(Role::Batch, arguments);
  return success();
}

LogicalResult Importer::importNodes(Graph &graph) {
  for (unsigned index : order)
    if (failed(importNode(graph, model.getGraph().node(index), index)))
      return failure();
  report.nodes = order.size();
  // The import does not need the declared types of inner values, but a wrong
  // declaration shows that the file describes another graph.
  for (const auto &info : model.getGraph().value_info())
    if (Value value = graph.lookup(info.name()))
      if (failed(dimensions.check(model, "value", info,
                                  cast<RankedTensorType>(value.getType()))))
        return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Loss and results
//===----------------------------------------------------------------------===//

/// Returns the loss as a scalar f32, or null if the model has none. If the loss
/// is an output of the graph, `name` becomes that output's name.
FailureOr<Value> Importer::getLoss(Graph &graph, std::string &name) {
  if (!options.loss.empty() && !options.lossOutput.empty())
    return model.emitError() << "--loss and --loss-output exclude each other";
  ImplicitLocOpBuilder b(
      NameLoc::get(StringAttr::get(model.getContext(), kLossName)),
      model.getContext());
  b.setInsertionPoint(function.front().getTerminator());
  auto isOutput = [&](StringRef wanted) {
    return llvm::any_of(model.getGraph().output(), [&](const auto &output) {
      return output.name() == wanted;
    });
  };
  auto listOutputs = [&](InFlightDiagnostic &error) {
    llvm::interleaveComma(
        model.getGraph().output(), error,
        [&](const auto &output) { error << quote(output.name()); });
  };
  auto rejectName = [&](StringRef flag, StringRef wanted) -> LogicalResult {
    InFlightDiagnostic error = model.emitError();
    error << flag << ": the model has no output " << quote(wanted)
          << "; its outputs are ";
    listOutputs(error);
    return error;
  };
  if (!options.loss.empty()) {
    FailureOr<LossExpression> loss = parseLoss(model.getLoc(), options.loss);
    if (failed(loss))
      return failure();
    if (!isOutput(loss->output))
      return rejectName("--loss", loss->output);
    Value output = graph.lookup(loss->output);
    FailureOr<RankedTensorType> type = getTargetType(
        model.getLoc(), *loss, cast<RankedTensorType>(output.getType()));
    if (failed(type))
      return failure();
    Value target = graph.lookup(loss->target);
    if (!target) {
      graph.addArguments(Role::Batch, makeArgument(loss->target, *type));
      target = graph.lookup(loss->target);
    } else if (!findArgument(function, Role::Batch, loss->target) ||
               target.getType() != *type) {
      return model.emitError()
             << "--loss: " << quote(loss->target)
             << " has to be a new name or an input of type " << *type
             << ", but it is a value of type " << target.getType();
    }
    return buildLoss(b, *loss, output, target);
  }
  name = options.lossOutput.empty() ? kLossName.str() : options.lossOutput;
  if (!isOutput(name)) {
    if (!options.lossOutput.empty())
      return rejectName("--loss-output", name);
    return Value();
  }
  Value loss = graph.lookup(name);
  auto type = cast<RankedTensorType>(loss.getType());
  if (type.getNumElements() != 1 || !isa<FloatType>(type.getElementType())) {
    if (options.lossOutput.empty()) {
      name.clear();
      return Value();
    }
    return model.emitError()
           << "--loss-output " << quote(name)
           << " has to have one floating-point element, but it is "
           << describeTensor(type);
  }
  return buildCast(b, buildReshape(b, loss, {}), b.getF32Type());
}

LogicalResult Importer::addResults(Graph &graph) {
  for (const auto &output : model.getGraph().output())
    if (!graph.lookup(output.name()))
      return model.emitError() << "expected output " << quote(output.name())
                               << " to be a tensor, got "
                               << graph.find(output.name())->describe();
  std::string lossName;
  FailureOr<Value> loss = getLoss(graph, lossName);
  if (failed(loss))
    return failure();
  graph.addStateResults();
  SmallVector<NewResult> results;
  if (*loss)
    results.push_back({Role::Metric, kLossName.str(), *loss});
  for (const auto &output : model.getGraph().output()) {
    Value value = graph.lookup(output.name());
    if (failed(dimensions.check(model, "output", output,
                                cast<RankedTensorType>(value.getType()))))
      return failure();
    if (*loss && output.name() == lossName)
      continue;
    results.push_back({Role::Output, output.name(), value});
  }
  mlir::binade::addResults(function, results);
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> Importer::run() {
  if (failed(checkModel(model, tensors, isRuntimeOp)) ||
      failed(model.checkSupported()) ||
      failed(restoreParameters(model, tensors, options.freeze)) ||
      failed(inlineFunctions(model)))
    return failure();
  exposeGradients(model);
  FailureOr<SmallVector<unsigned>> sorted = sortNodes(model, model.getGraph());
  if (failed(sorted))
    return failure();
  order = *sorted;
  FailureOr<Metadata> metadata = readMetadata(model);
  if (failed(metadata) ||
      failed(dimensions.bind(model, options.dims, metadata->dims)))
    return failure();
  report.dims = dimensions.getBound();
  used = collectUsed(model.getGraph(), order);
  Initializers initializers(model, *metadata);
  if (failed(initializers.classify(order, used, dimensions, tensors, options,
                                   report.unused)) ||
      failed(checkOps(model, model.getGraph(), order)) ||
      (options.failOnNonfinite && failed(initializers.checkFinite(tensors))))
    return failure();
  createFunction();
  Graph graph(model, *metadata, tensors, used, function);
  if (failed(defineInitializers(initializers, *metadata, graph, report)) ||
      failed(addBatch(graph)) || failed(importNodes(graph)) ||
      failed(addResults(graph)))
    return failure();
  remarkOnPadding(initializers, model, *metadata, order, tensors);
  // Erases constants that only shape arithmetic used, and unused results.
  eraseDead(function);
  if (failed(verify(*module)))
    return failure();
  return std::move(module);
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

static void printGroup(raw_ostream &os, StringRef name,
                       const TensorGroup &group) {
  os << name << ": " << group.tensors << " tensors, " << group.elements
     << " elements, " << group.bytes << " bytes\n";
}

void ImportReport::print(raw_ostream &os) const {
  os << "nodes: " << nodes << "\n";
  if (!dims.empty()) {
    os << "dimensions: ";
    llvm::interleaveComma(dims, os, [&](auto &entry) {
      os << ::binade::printable(entry.first) << " = " << entry.second;
    });
    os << "\n";
  }
  printGroup(os, "parameters", parameters);
  printGroup(os, "buffers", buffers);
  printGroup(os, "constants", constants);
  if (unused.tensors)
    printGroup(os, "unused", unused);
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::binade::importOnnx(llvm::MemoryBufferRef file,
                         const ImportOptions &options, MLIRContext *context,
                         ImportReport *report) {
  context->loadDialect<BinadeDialect, func::FuncDialect>();
  Model model(context, file.getBufferIdentifier());
  if (failed(model.parse(file.getBuffer())))
    return failure();
  ImportReport unread;
  return Importer(model, options, report ? *report : unread).run();
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::binade::importOnnx(StringRef path, const ImportOptions &options,
                         MLIRContext *context, ImportReport *report) {
  context->loadDialect<BinadeDialect, func::FuncDialect>();
  Model model(context, path);
  ImportReport unread;
  ImportReport &filled = report ? *report : unread;
  if (failed(model.read())) {
    filled.exitCode = model.getExitCode();
    return failure();
  }
  return Importer(model, options, filled).run();
}
