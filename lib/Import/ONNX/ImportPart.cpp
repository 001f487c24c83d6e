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
  void addArgument(Graph &graph, const ::onnx::ValueInfoProto &value,
                   Role role = Role::Batch);
  bool hasGradient(const ::onnx::ValueInfoProto &input) const;
  void findTypes();
  std::optional<std::string> importNode(Graph &graph, unsigned index);
  void leaveOut(Graph &graph, unsigned index);

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
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
};
} // namespace

LogicalResult PartImporter::prepare() {
  FailureOr<Metadata> read = readMetadata(model);
  if (failed(read))
    return failure();
  metadata = std::move(*read);
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

/// Does nothing for what is no tensor of known shape.
void PartImporter::addArgument(Graph &graph,
                               const ::onnx::ValueInfoProto &value, Role role) {
  DiagnosticCollector ignored(model.getContext());
  FailureOr<RankedTensorType> type = dimensions.getType(model, value);
  if (succeeded(type))
    graph.addArgument(role, value.name(), *type);
}

/// Whether an output beside the loss may be the gradient or the new value of a
/// matrix: it has its type.
bool PartImporter::hasGradient(const ::onnx::ValueInfoProto &input) const {
  StringRef loss = options.lossOutput.empty() ? StringRef(kLossName)
                                              : StringRef(options.lossOutput);
  auto isLoss = [&](const auto &output) { return output.name() == loss; };
  const auto &type = input.type().tensor_type();
  return type.elem_type() == ::onnx::TensorProto::FLOAT &&
         type.shape().dim_size() >= 2 && llvm::any_of(file.output(), isLoss) &&
         llvm::any_of(file.output(), [&](const auto &output) {
           const auto &other = output.type().tensor_type();
           return !isLoss(output) && other.elem_type() == type.elem_type() &&
                  other.shape().SerializeAsString() ==
                      type.shape().SerializeAsString();
         });
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

/// Its inputs stay alive, and its outputs come from somewhere.
void PartImporter::leaveOut(Graph &graph, unsigned index) {
  const auto &node = file.node(index);
  for (const std::string &name : node.input())
    if (Value value = graph.lookup(name))
      read.insert(value);
  for (const std::string &name : node.output())
    if (auto type = types.find(name); type != types.end())
      addArgument(graph, *type->second);
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
  for (const auto &input : file.input())
    if (!graph.lookup(input.name()))
      addArgument(graph, input,
                  hasGradient(input) ? Role::Parameter : Role::Batch);
  for (unsigned index : order)
    if (std::optional<std::string> reason = importNode(graph, index)) {
      leftOut.nodes[index].reason = std::move(*reason);
      leaveOut(graph, index);
    }
  graph.addStateResults();
  for (const auto &output : file.output())
    if (Value value = graph.lookup(output.name())) {
      addResult(function, Role::Output, output.name(), value);
      read.remove(value);
    }
  for (auto [index, value] : llvm::enumerate(read))
    addResult(function, Role::Output, ("left out " + Twine(index)).str(),
              value);
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
  if (failed(model.read()))
    return failure();
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
