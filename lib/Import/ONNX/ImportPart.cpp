//===- ImportPart.cpp - What can be imported of an ONNX file --------------===//
// For who wants to know what ops there are, and not to run them: whatever has
// no counterpart is left out, with the reason.
//===----------------------------------------------------------------------===//

#include "ImportNode.h"
#include "Initializers.h"
#include "Loss.h"
#include "OpTable.h"
#include "Order.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/EraseDead.h"
#include "binade/IR/Movement.h"
#include "binade/Import/ONNX/Import.h"
#include "binade/Import/Passes.h"
#include "mlir/IR/Verifier.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
class PartImporter {
public:
  PartImporter(Model &model, const ImportOptions &options, LeftOut &leftOut)
      : model(model), file(model.getGraph()), options(options),
        leftOut(leftOut), tensors(model, options.allowHardLinks) {}

  /// Looks at what the user and the metadata say; that has to be right.
  LogicalResult prepare();
  FailureOr<OwningOpRef<ModuleOp>> run();

private:
  void dropUnknownTensors();
  LogicalResult classify(Initializers &initializers);
  void createFunction();
  FailureOr<NewArgument> makeArgument(const ::onnx::ValueInfoProto &value);
  void addInputs(Graph &graph);
  llvm::StringSet<> findUpdatedTypes() const;
  void findTypes();
  std::optional<std::string> importNode(Graph &graph, unsigned index);
  void findRanks(Graph &graph, unsigned index);
  void findHandedOn(Graph &graph, unsigned index);
  void leaveOut(Graph &graph, unsigned index);
  void addResults(Graph &graph);
  void addLeftOutputs();

  Model &model;
  const ::onnx::GraphProto &file;
  const ImportOptions &options;
  LeftOut &leftOut;
  TensorReader tensors;
  Metadata metadata;
  Dimensions dimensions;
  SmallVector<unsigned> order;
  llvm::StringSet<> used;
  /// What the file says of values that nodes make.
  llvm::StringMap<const ::onnx::ValueInfoProto *> types;
  llvm::SetVector<Value> read; ///< By nodes that are left out.
  /// What those make, until it is arguments of the function.
  Block standIns;
  SmallVector<NewArgument> leftOutputs;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
};
} // namespace

LogicalResult PartImporter::prepare() {
  FailureOr<Metadata> read = readMetadata(model);
  if (failed(read))
    return failure();
  metadata = std::move(*read);
  // What is trained is no more than assumed.
  if (options.failOnNonfinite)
    for (const auto &tensor : file.initializer())
      if (failed(tensors.checkFinite(
              model.getLoc("initializer " + quote(tensor.name())), tensor,
              /*canBeMask=*/true)))
        return failure();
  llvm::StringMap<int64_t> defaults = metadata.dims;
  for (const auto &input : file.input())
    for (const auto &dimension : input.type().tensor_type().shape().dim())
      if (!dimension.dim_param().empty())
        defaults.insert({dimension.dim_param(), kAssumedLength});
  return dimensions.bind(model, options.dims, defaults);
}

/// Tensors of types without a counterpart have no value.
void PartImporter::dropUnknownTensors() {
  for (const auto &tensor : file.initializer())
    if (!getElementType(model.getContext(), tensor.data_type()))
      used.erase(tensor.name());
}

LogicalResult PartImporter::classify(Initializers &initializers) {
  bool saysNothing =
      !metadata.trainable &&
      llvm::none_of(file.initializer(), [](const auto &tensor) {
        return tensor.data_location() == ::onnx::TensorProto::EXTERNAL;
      });
  ImportReport ignored;
  return initializers.classify(order, used, dimensions, tensors, options,
                               ignored, saysNothing);
}

void PartImporter::createFunction() {
  MLIRContext *context = model.getContext();
  OpBuilder b(context);
  module = ModuleOp::create(b, b.getUnknownLoc());
  Location loc = NameLoc::get(b.getStringAttr(file.name()));
  b.setInsertionPointToEnd(module->getBody());
  function =
      func::FuncOp::create(b, loc, kForwardName, b.getFunctionType({}, {}));
  b.setInsertionPointToEnd(function.addEntryBlock());
  func::ReturnOp::create(b, loc);
}

/// Fails, without a word, for what is no tensor of known shape.
FailureOr<NewArgument>
PartImporter::makeArgument(const ::onnx::ValueInfoProto &value) {
  DiagnosticCollector ignored(model.getContext());
  FailureOr<RankedTensorType> type = dimensions.getType(model, value);
  if (failed(type))
    return failure();
  return importer::makeArgument(value.name(), *type);
}

static std::string describeType(const ::onnx::ValueInfoProto &value) {
  return value.type().tensor_type().SerializeAsString();
}

/// Element types and shapes of what the graph computes beside the loss, if it
/// computes one.
llvm::StringSet<> PartImporter::findUpdatedTypes() const {
  StringRef loss = options.lossOutput.empty() ? StringRef(kLossName)
                                              : StringRef(options.lossOutput);
  llvm::StringSet<> updated;
  bool hasLoss = false;
  for (const auto &output : file.output()) {
    hasLoss |= output.name() == loss;
    if (output.name() != loss)
      updated.insert(describeType(output));
  }
  return hasLoss ? std::move(updated) : llvm::StringSet<>();
}

/// A matrix may have its gradient or new value among the outputs: where one has
/// its type.
void PartImporter::addInputs(Graph &graph) {
  llvm::StringSet<> updated = findUpdatedTypes();
  SmallVector<NewArgument> parameters, batch;
  for (const auto &input : file.input()) {
    if (graph.lookup(input.name()))
      continue;
    const auto &type = input.type().tensor_type();
    bool isUpdated = type.elem_type() == ::onnx::TensorProto::FLOAT &&
                     type.shape().dim_size() >= 2 &&
                     updated.contains(describeType(input));
    if (FailureOr<NewArgument> made = makeArgument(input); succeeded(made))
      (isUpdated ? parameters : batch).push_back(*made);
  }
  graph.addArguments(Role::Parameter, parameters);
  graph.addArguments(Role::Batch, batch);
}

void PartImporter::findTypes() {
  for (const auto *values : {&file.value_info(), &file.output()})
    for (const auto &value : *values)
      types[value.name()] = &value;
}

/// Why the node cannot be imported; nothing where it was.
std::optional<std::string> PartImporter::importNode(Graph &graph,
                                                    unsigned index) {
  const auto &node = file.node(index);
  if (!findOp(node.domain(), node.op_type(), model.getOpset()))
    return "no such op is known";
  if (holdsGraphs(node))
    return "it holds graphs of its own";
  for (const std::string &name : node.input())
    if (!name.empty() && !graph.lookup(name))
      return "it reads " + quote(name) + ", whose type is not known";
  DiagnosticCollector errors(model.getContext());
  Block &block = function.front();
  Operation *last = block.getTerminator()->getPrevNode();
  if (succeeded(importer::importNode(graph, node, index)))
    return std::nullopt;
  while (block.getTerminator()->getPrevNode() != last)
    block.getTerminator()->getPrevNode()->erase();
  return errors.takeError("", "it cannot be imported").message;
}

void PartImporter::findRanks(Graph &graph, unsigned index) {
  for (const std::string &name : file.node(index).input()) {
    Value value = name.empty() ? Value() : graph.lookup(name);
    auto type = value ? dyn_cast<RankedTensorType>(value.getType())
                      : RankedTensorType();
    leftOut.nodes[index].ranks.push_back(type ? type.getRank() : -1);
  }
}

void PartImporter::findHandedOn(Graph &graph, unsigned index) {
  const auto &node = file.node(index);
  Value made = node.output().empty() ? Value() : graph.lookup(node.output(0));
  for (const std::string &name : node.input())
    if (made && !name.empty() && graph.lookup(name) == made)
      leftOut.nodes[index].same = name;
  if (!made || node.input().empty() || node.input(0).empty())
    return;
  Value given = graph.lookup(node.input(0)), moved = made;
  while (moved && moved != given && !moved.getDefiningOp<CastOp>())
    moved = getMoved(moved);
  LeftOut::Node &found = leftOut.nodes[index];
  found.isMovement = moved && moved == given && moved != made;
  found.movesAll =
      found.isMovement && getNumElements(given) == getNumElements(made);
}

/// Its inputs stay alive, and its outputs come from somewhere: they become
/// arguments of the function, all at once when the nodes are done.
void PartImporter::leaveOut(Graph &graph, unsigned index) {
  const auto &node = file.node(index);
  for (const std::string &name : node.input())
    if (Value value = graph.lookup(name))
      read.insert(value);
  for (const std::string &name : node.output()) {
    auto type = types.find(name);
    if (type == types.end())
      continue;
    FailureOr<NewArgument> made = makeArgument(*type->second);
    if (failed(made))
      continue;
    graph.define(name, standIns.addArgument(made->type, made->loc));
    leftOutputs.push_back(*made);
  }
}

void PartImporter::addLeftOutputs() {
  SmallVector<Value> values = addArguments(function, Role::Batch, leftOutputs);
  for (auto [standIn, value] : llvm::zip(standIns.getArguments(), values))
    standIn.replaceAllUsesWith(value);
}

void PartImporter::addResults(Graph &graph) {
  SmallVector<NewResult> results;
  llvm::DenseSet<Value> returned;
  auto add = [&](const std::string &name, Value value) {
    results.push_back({Role::Output, name, value});
    returned.insert(value);
  };
  for (const auto &output : file.output())
    if (Value value = graph.lookup(output.name()))
      add(output.name(), value);
  for (auto [index, value] : llvm::enumerate(read))
    if (!returned.contains(value))
      add("left out " + std::to_string(index), value);
  mlir::binade::addResults(function, results);
}

FailureOr<OwningOpRef<ModuleOp>> PartImporter::run() {
  FailureOr<SmallVector<unsigned>> sorted = sortNodes(model, file);
  if (failed(sorted))
    return failure();
  order = *sorted;
  used = collectUsed(file, order);
  dropUnknownTensors();
  findTypes();
  Initializers initializers(model, metadata);
  if (failed(classify(initializers)))
    return failure();
  createFunction();
  Graph graph(model, metadata, tensors, used, function);
  ImportReport ignored;
  if (failed(initializers.define(graph, ignored)))
    return failure();
  addInputs(graph);
  for (unsigned index : order) {
    findRanks(graph, index);
    if (std::optional<std::string> reason = importNode(graph, index)) {
      leftOut.nodes[index].reason = std::move(*reason);
      leaveOut(graph, index);
    }
    findHandedOn(graph, index);
  }
  graph.addStateResults();
  addResults(graph);
  addLeftOutputs();
  recognizeLinear(function);
  eraseDead(function);
  if (failed(verify(*module)))
    return failure();
  return std::move(module);
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::binade::importOnnxPart(StringRef path, const ImportOptions &options,
                             MLIRContext *context, LeftOut &leftOut) {
  context->loadDialect<BinadeDialect, func::FuncDialect>();
  Model model(context, path);
  if (failed(model.read())) {
    leftOut.exitCode = model.getExitCode();
    return failure();
  }
  for (auto [index, node] : llvm::enumerate(model.getGraph().node()))
    leftOut.nodes.push_back({getNodeName(node, index), ""});
  PartImporter importer(model, options, leftOut);
  if (failed(importer.prepare()))
    return failure();
  DiagnosticCollector errors(context);
  if (succeeded(model.checkSupported()))
    if (auto module = importer.run(); succeeded(module))
      return module;
  leftOut.everything = errors.takeError("", "it cannot be imported").message;
  return OwningOpRef<ModuleOp>();
}
