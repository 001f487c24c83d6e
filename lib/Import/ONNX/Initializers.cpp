//===- Initializers.cpp - Parameters, buffers and constants ---------------===//

#include "Initializers.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;
using ::onnx::TensorProto;

namespace {
/// An initializer, or an input with a rule instead of a value.
struct Tensor {
  StringRef name;
  RankedTensorType type;
  const TensorProto *proto = nullptr;
  std::optional<ByteRange> range;
  bool isBuffer = false;
  bool isTrained = false;

  bool isTrainable() const {
    return isa<FloatType>(type.getElementType()) && !isBuffer;
  }
};

class Initializers {
public:
  Initializers(Graph &graph, const Metadata &metadata, ImportReport &report)
      : graph(graph), metadata(metadata), model(graph.getModel()),
        report(report) {}

  LogicalResult collect(ArrayRef<unsigned> order);
  LogicalResult applyGlobs(ArrayRef<std::string> globs, StringRef flag,
                           bool isTrained);
  LogicalResult define();

private:
  Location getLoc(StringRef name) const {
    return model.getLoc("initializer " + quote(name));
  }
  LogicalResult defineArgument(const Tensor &tensor, Role role);
  LogicalResult defineConstant(const Tensor &tensor);

  Graph &graph;
  const Metadata &metadata;
  const Model &model;
  ImportReport &report;
  std::vector<Tensor> tensors;
  /// The first parameter stored at a place; others at the same place are tied.
  llvm::DenseMap<Attribute, Value> stored;
};
} // namespace

static void count(ImportReport::Group &group, RankedTensorType type) {
  ++group.tensors;
  group.elements += type.getNumElements();
  group.bytes += getBytes(type);
}

LogicalResult Initializers::collect(ArrayRef<unsigned> order) {
  const ::onnx::GraphProto &proto = model.getGraph();
  llvm::StringSet<> statistics, names;
  for (unsigned index : order)
    if (const auto &node = proto.node(index);
        node.op_type() == "BatchNormalization" && node.input_size() == 5) {
      statistics.insert(node.input(3));
      statistics.insert(node.input(4));
    }
  for (auto [index, tensor] : llvm::enumerate(proto.initializer())) {
    FailureOr<RankedTensorType> type =
        graph.getTensors().getType(getLoc(tensor.name()), tensor);
    if (failed(type))
      return failure();
    if (!names.insert(tensor.name()).second)
      return mlir::emitError(getLoc(tensor.name())) << "is defined twice";
    if (!graph.isUsed(tensor.name())) {
      count(report.unused, *type);
      continue;
    }
    Tensor &entry = tensors.emplace_back();
    entry.name = tensor.name();
    entry.type = *type;
    entry.proto = &tensor;
    entry.range = model.getRawData(index);
    entry.isBuffer = statistics.contains(tensor.name());
    entry.isTrained =
        entry.isTrainable() &&
        (metadata.trainable ? metadata.trainable->contains(tensor.name())
                            : tensor.data_location() == TensorProto::EXTERNAL);
  }
  for (const auto &input : proto.input())
    if (metadata.initial.contains(input.name())) {
      FailureOr<RankedTensorType> type = graph.getInputType(input);
      if (failed(type))
        return failure();
      if (!isa<FloatType>(type->getElementType()))
        return mlir::emitError(getLoc(input.name()))
               << "has a rule for its initial value, but holds " << *type;
      Tensor &entry = tensors.emplace_back();
      entry.name = input.name();
      entry.type = *type;
      entry.isBuffer = statistics.contains(input.name());
      entry.isTrained =
          entry.isTrainable() &&
          (!metadata.trainable || metadata.trainable->contains(input.name()));
    }
  return success();
}

LogicalResult Initializers::applyGlobs(ArrayRef<std::string> globs,
                                       StringRef flag, bool isTrained) {
  for (const std::string &text : globs) {
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(text);
    if (!pattern)
      return model.emitError() << flag << " " << quote(text) << ": "
                               << llvm::toString(pattern.takeError());
    bool matches = false;
    for (Tensor &tensor : tensors)
      if (tensor.isTrainable() && pattern->match(tensor.name)) {
        matches = true;
        tensor.isTrained = isTrained;
      }
    if (!matches)
      return model.emitError()
             << flag << " " << quote(text)
             << " matches none of the model's floating-point initializers";
  }
  return success();
}

LogicalResult Initializers::defineArgument(const Tensor &tensor, Role role) {
  if (!tensor.proto) {
    const InitialRule &rule = metadata.initial.find(tensor.name)->second;
    graph.addArgument(role, tensor.name, tensor.type,
                      getInitialValue(rule, tensor.type));
  } else {
    FailureOr<TypedAttr> value = graph.getTensors().refer(
        getLoc(tensor.name), *tensor.proto, tensor.range);
    if (failed(value))
      return failure();
    bool canBeTied = role == Role::Parameter && isa<ExternalAttr>(*value) &&
                     tensor.type.getNumElements() > 0;
    if (Value first = stored.lookup(*value); first && canBeTied) {
      graph.define(tensor.name, first);
      return success();
    }
    graph.addArgument(role, tensor.name, tensor.type, *value);
    if (canBeTied)
      stored[*value] = graph.lookup(tensor.name);
  }
  count(role == Role::Parameter ? report.parameters : report.buffers,
        tensor.type);
  return success();
}

LogicalResult Initializers::defineConstant(const Tensor &tensor) {
  FailureOr<TypedAttr> value = graph.getTensors().readConstant(
      getLoc(tensor.name), *tensor.proto, tensor.range);
  if (failed(value))
    return failure();
  Location loc = NameLoc::get(StringAttr::get(graph.getContext(), tensor.name));
  OpBuilder b(graph.getFunction().front().getTerminator());
  graph.define(tensor.name, ConstantOp::create(b, loc, *value));
  count(report.constants, tensor.type);
  return success();
}

LogicalResult Initializers::define() {
  for (const Tensor &tensor : tensors) {
    // A tensor without a value cannot be a constant: it is kept like one.
    bool isKept = tensor.isBuffer || (!tensor.isTrained && !tensor.proto);
    LogicalResult defined = isKept ? defineArgument(tensor, Role::Buffer)
                            : tensor.isTrained
                                ? defineArgument(tensor, Role::Parameter)
                                : defineConstant(tensor);
    if (failed(defined))
      return failure();
  }
  return success();
}

LogicalResult mlir::binade::importer::addInitializers(
    Graph &graph, const Metadata &metadata, ArrayRef<unsigned> order,
    const ImportOptions &options, ImportReport &report) {
  Initializers initializers(graph, metadata, report);
  if (failed(initializers.collect(order)) ||
      failed(initializers.applyGlobs(options.freeze, "--freeze", false)) ||
      failed(initializers.applyGlobs(options.train, "--train", true)))
    return failure();
  return initializers.define();
}
