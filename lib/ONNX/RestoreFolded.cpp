//===- RestoreFolded.cpp - Folded transposes and expansions ---------------===//

#include "RestoreFolded.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::TensorProto;

namespace {
/// An initializer that the exporter computed from one parameter.
struct FoldedValue {
  std::string name;
  const TorchTensor *origin;
  /// Whether it was computed from the parameter alone, without sizes.
  bool isAlone;
  SmallVector<NodeInput> readers;
};

class FoldedRestorer {
public:
  FoldedRestorer(Model &model, const TorchSignature &signature,
                 ParameterEditor &editor)
      : model(model), graph(std::as_const(model).getGraph()),
        signature(signature), editor(editor) {}

  LogicalResult run();

private:
  std::vector<FoldedValue> collect() const;
  bool areTraced(const FoldedValue &value) const;
  bool isBatchSize(int64_t size) const;
  LogicalResult restoreTranspose(const FoldedValue &value);
  LogicalResult restoreExpanded(const FoldedValue &value);

  Model &model;
  const ::onnx::GraphProto &graph;
  const TorchSignature &signature;
  ParameterEditor &editor;
};
} // namespace

/// Returns the values that were computed from one parameter, and only by ops
/// without a name of their own in the traced program: such ops compute sizes.
std::vector<FoldedValue> FoldedRestorer::collect() const {
  FoldedValues folded = readFoldedValues(graph);
  llvm::MapVector<StringRef, FoldedValue> found;
  for (int node = 0, end = editor.countNodes(); node < end; ++node)
    for (auto [input, name] : llvm::enumerate(editor.getNode(node).input())) {
      auto entry = folded.find(name);
      if (entry == folded.end() || !editor.find(name))
        continue;
      const TorchTensor *origin = nullptr;
      bool isOne = llvm::all_of(entry->second, [&](StringRef source) {
        const TorchTensor *tensor = signature.findTarget(source);
        if (!tensor || origin)
          return !tensor && getTracedFunction(source) == "val";
        origin = tensor;
        return true;
      });
      if (!isOne || !origin || !origin->isParameter)
        continue;
      FoldedValue &value = found[entry->first()];
      value.name = name;
      value.origin = origin;
      value.isAlone = entry->second.size() == 1;
      value.readers.push_back({node, static_cast<int>(input)});
    }
  std::vector<FoldedValue> values;
  for (auto &entry : found)
    values.push_back(std::move(entry.second));
  return values;
}

/// Whether the traced call of each reader has `value` as an argument. Otherwise
/// the exporter may have merged several values into it.
bool FoldedRestorer::areTraced(const FoldedValue &value) const {
  return llvm::all_of(value.readers, [&](NodeInput place) {
    return llvm::is_contained(
        getTorchCall(editor.getNode(place.node)).getValues(), value.name);
  });
}

/// Whether an input of the graph has this size along its first axis.
bool FoldedRestorer::isBatchSize(int64_t size) const {
  return llvm::any_of(graph.input(), [&](const auto &input) {
    const auto &shape = input.type().tensor_type().shape();
    return shape.dim_size() > 0 && shape.dim(0).dim_value() == size;
  });
}

LogicalResult FoldedRestorer::restoreTranspose(const FoldedValue &value) {
  StringRef parameter = value.origin->target;
  int read = *editor.find(value.name);
  if (std::optional<int> stored = editor.find(parameter)) {
    FailureOr<bool> isTranspose = editor.isTranspose(read, *stored);
    if (failed(isTranspose))
      return failure();
    if (!*isTranspose)
      return success();
  } else {
    constexpr StringRef kTransposing[] = {"permute", "transpose", "t",
                                          "numpy_T"};
    bool isTransposed =
        llvm::is_contained(kTransposing, getTracedFunction(value.name)) &&
        editor.get(read).dims_size() == 2 && areTraced(value);
    if (!isTransposed)
      return success();
  }
  for (NodeInput place : value.readers)
    if (failed(editor.readTransposed(place, parameter)))
      return failure();
  return success();
}

/// Whether the elements, of which each has `width` bytes, do not change along
/// `axis`.
static bool isConstantAlong(ArrayRef<char> bytes, ArrayRef<int64_t> shape,
                            size_t axis, size_t width) {
  size_t inner = width;
  for (int64_t size : shape.drop_front(axis + 1))
    inner *= size;
  size_t block = inner * shape[axis];
  for (; !bytes.empty(); bytes = bytes.drop_front(block))
    if (bytes.slice(inner, block - inner) != bytes.take_front(block - inner))
      return false;
  return true;
}

/// Restores a parameter of one row along the first axis from equal rows.
LogicalResult FoldedRestorer::restoreExpanded(const FoldedValue &value) {
  StringRef parameter = value.origin->target;
  int read = *editor.find(value.name);
  const TensorProto &tensor = editor.get(read);
  SmallVector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  if (getTracedFunction(value.name) != "expand" || editor.find(parameter) ||
      shape.size() < 2 || llvm::is_contained(shape, 0) || shape[0] < 2 ||
      !isBatchSize(shape[0]) || !areTraced(value))
    return success();
  FailureOr<std::vector<char>> bytes = editor.readBytes(read);
  if (failed(bytes))
    return failure();
  size_t width = bytes->size();
  for (int64_t size : shape)
    width /= size;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] > 1 &&
        isConstantAlong(*bytes, shape, axis, width) != (axis == 0))
      return success();
  SmallVector<int64_t> row(shape);
  row[0] = 1;
  StringRef first(bytes->data(), bytes->size() / shape[0]);
  if (failed(editor.define(parameter, read, row, first)))
    return failure();
  std::string expanded =
      editor
          .addNode(value.readers.front().node, "Expand",
                   {parameter.str(), editor.addIntegers(shape)})
          .output(0);
  for (NodeInput place : value.readers)
    editor.replace(place, expanded);
  InFlightDiagnostic remark = mlir::emitRemark(model.getLoc());
  remark << "the file has parameter " << quote(parameter) << " expanded to "
         << shape[0] << " equal rows; it is restored as [";
  llvm::interleaveComma(row, remark);
  remark << "]";
  return success();
}

LogicalResult FoldedRestorer::run() {
  for (const FoldedValue &value : collect())
    if (failed(value.isAlone ? restoreTranspose(value)
                             : restoreExpanded(value)))
      return failure();
  return success();
}

LogicalResult mlir::binade::restoreFolded(Model &model,
                                          const TorchSignature &signature,
                                          ParameterEditor &editor) {
  return FoldedRestorer(model, signature, editor).run();
}
