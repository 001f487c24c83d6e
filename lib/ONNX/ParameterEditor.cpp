//===- ParameterEditor.cpp - Adds parameters to an ONNX graph -------------===//

#include "ParameterEditor.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

static ArrayRef<int64_t> getShape(const TensorProto &tensor) {
  return ArrayRef<int64_t>(tensor.dims().data(), tensor.dims().size());
}

ParameterEditor::ParameterEditor(Model &model, TensorReader &reader)
    : model(model), reader(reader), names(model.getProto()),
      numOriginalNodes(std::as_const(model).getGraph().node_size()),
      numOriginalInitializers(
          std::as_const(model).getGraph().initializer_size()) {
  for (auto [index, tensor] :
       llvm::enumerate(std::as_const(model).getGraph().initializer()))
    initializers[tensor.name()] = static_cast<int>(index);
}

std::optional<int> ParameterEditor::find(StringRef name) const {
  auto found = initializers.find(name);
  return found == initializers.end() ? std::nullopt
                                     : std::optional(found->second);
}

const TensorProto &ParameterEditor::get(int index) const {
  return std::as_const(model).getGraph().initializer(index);
}

const NodeProto &ParameterEditor::getNode(int index) const {
  return std::as_const(model).getGraph().node(index);
}

std::optional<int> ParameterEditor::findRead(NodeInput place) const {
  return find(getNode(place.node).input(place.input));
}

LogicalResult ParameterEditor::checkShape(NodeInput place, StringRef name,
                                          ArrayRef<int64_t> expected) {
  ArrayRef<int64_t> shape = getShape(get(*find(name)));
  if (shape == expected)
    return success();
  InFlightDiagnostic error =
      mlir::emitError(model.getLoc(getNode(place.node), place.node));
  auto print = [&](ArrayRef<int64_t> sizes) -> InFlightDiagnostic & {
    error << "[";
    llvm::interleaveComma(sizes, error);
    return error << "]";
  };
  error << "reads a tensor of shape ";
  print(expected) << " as parameter " << quote(name) << ", which has shape ";
  print(shape);
  return error;
}

void ParameterEditor::addCopy(int index, StringRef name) {
  initializers[name] = model.copyInitializer(index, name);
}

void ParameterEditor::replace(NodeInput place, StringRef value) {
  NodeProto &node = *model.getProto().mutable_graph()->mutable_node(place.node);
  model.addReplaced(node.input(place.input));
  node.set_input(place.input, value.str());
}

FailureOr<std::vector<char>> ParameterEditor::readBytes(int index) {
  const TensorProto &tensor = get(index);
  return reader.readBytes(model.getLoc("initializer " + quote(tensor.name())),
                          tensor);
}

LogicalResult ParameterEditor::define(StringRef name, int like,
                                      ArrayRef<int64_t> shape,
                                      StringRef bytes) {
  if (std::optional<int> known = find(name)) {
    FailureOr<std::vector<char>> other = readBytes(*known);
    if (failed(other))
      return failure();
    if (getShape(get(*known)) == shape &&
        StringRef(other->data(), other->size()) == bytes)
      return success();
    return model.emitError("initializer " + quote(get(like).name()))
           << "differs from parameter " << quote(name)
           << " of the file, from which the exporter says it was computed";
  }
  TensorProto tensor;
  tensor.set_name(name.str());
  tensor.set_data_type(get(like).data_type());
  tensor.mutable_dims()->Add(shape.begin(), shape.end());
  tensor.set_raw_data(bytes.str());
  initializers[name] = model.addInitializer(std::move(tensor));
  return success();
}

std::string ParameterEditor::addIntegers(ArrayRef<int64_t> values) {
  std::string &known = integers[{values.begin(), values.end()}];
  if (!known.empty())
    return known;
  TensorProto tensor;
  tensor.set_name(names.makeNew("integers"));
  tensor.set_data_type(TensorProto::INT64);
  tensor.add_dims(values.size());
  tensor.mutable_int64_data()->Add(values.begin(), values.end());
  known = tensor.name();
  initializers[known] = model.addInitializer(std::move(tensor));
  return known;
}

NodeProto &ParameterEditor::addNode(int like, StringRef op,
                                    ArrayRef<std::string> inputs) {
  const NodeProto &reader = getNode(like);
  NodeProto &node = *model.getProto().mutable_graph()->add_node();
  node.set_op_type(op.str());
  *node.mutable_metadata_props() = reader.metadata_props();
  node.set_name(names.makeNew(reader.name() + "_" + op.str()));
  for (const std::string &input : inputs)
    node.add_input(input);
  node.add_output(names.makeNew(node.name() + ".result"));
  return node;
}

LogicalResult ParameterEditor::readFirstHalf(NodeInput place, StringRef name) {
  const TensorProto &source = get(*findRead(place));
  Location loc = model.getLoc("initializer " + quote(source.name()));
  FailureOr<std::vector<char>> bytes = reader.readBytes(loc, source);
  if (failed(bytes))
    return failure();
  size_t half = bytes->size() / 2;
  StringRef first(bytes->data(), half), second(bytes->data() + half, half);
  if (source.dims_size() != 2 || source.dims(0) != 1 || source.dims(1) % 2 ||
      !llvm::all_of(second, [](char byte) { return byte == 0; }))
    return success();
  std::string zeros = names.makeNew(name.str() + ".zeros");
  std::string joined = names.makeNew(name.str() + ".joined");
  for (auto [part, content] :
       {std::pair(name.str(), first), std::pair(zeros, second)}) {
    TensorProto tensor;
    tensor.set_name(part);
    tensor.set_data_type(source.data_type());
    tensor.add_dims(1);
    tensor.add_dims(source.dims(1) / 2);
    tensor.set_raw_data(content.str());
    initializers[part] = model.addInitializer(std::move(tensor));
  }
  auto &graph = *model.getProto().mutable_graph();
  NodeProto &node = *graph.add_node();
  node.set_op_type("Concat");
  node.set_name(names.makeNew(getNode(place.node).name() + "_Concat"));
  ::onnx::AttributeProto &axis = *node.add_attribute();
  axis.set_name("axis");
  axis.set_type(::onnx::AttributeProto::INT);
  axis.set_i(1);
  node.add_input(name.str());
  node.add_input(zeros);
  node.add_output(joined);
  replace(place, joined);
  return success();
}

void ParameterEditor::addZeroInput(int node, StringRef name, int64_t size,
                                   int like) {
  TensorProto zeros;
  zeros.set_name(name.str());
  zeros.set_data_type(get(like).data_type());
  zeros.add_dims(size);
  Type element = getElementType(model.getContext(), zeros.data_type());
  zeros.set_raw_data(std::string(
      getBytes(RankedTensorType::get(ArrayRef(size), element)), '\0'));
  initializers[name] = model.addInitializer(std::move(zeros));
  model.getProto().mutable_graph()->mutable_node(node)->add_input(name.str());
}

void ParameterEditor::eraseNodes(
    function_ref<bool(const NodeProto &)> isErased) {
  auto &nodes = *model.getProto().mutable_graph()->mutable_node();
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(), isErased),
              nodes.end());
  numOriginalNodes = nodes.size();
}

void ParameterEditor::sortAddedNodes() {
  auto &nodes = *model.getProto().mutable_graph()->mutable_node();
  std::rotate(nodes.pointer_begin(), nodes.pointer_begin() + numOriginalNodes,
              nodes.pointer_end());
}

LogicalResult ParameterEditor::readDirectly(NodeInput place, StringRef name) {
  int read = *findRead(place);
  if (!find(name))
    addCopy(read, name);
  else if (failed(checkShape(place, name, getShape(get(read)))))
    return failure();
  replace(place, name);
  return success();
}

/// Returns the transpose of a row-major matrix of elements of `width` bytes.
static std::string transpose(ArrayRef<char> bytes, int64_t rows,
                             int64_t columns, size_t width) {
  std::string result(bytes.size(), '\0');
  // Blocks of columns keep the rows of the result in the cache.
  constexpr int64_t kBlock = 64;
  for (int64_t first = 0; first < columns; first += kBlock)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = first; column < std::min(columns, first + kBlock);
           ++column)
        std::copy_n(bytes.data() + (row * columns + column) * width, width,
                    result.data() + (column * rows + row) * width);
  return result;
}

FailureOr<std::string> ParameterEditor::readTransposedBytes(int index) {
  const TensorProto &source = get(index);
  Location loc = model.getLoc("initializer " + quote(source.name()));
  FailureOr<std::vector<char>> bytes = reader.readBytes(loc, source);
  if (failed(bytes))
    return failure();
  int64_t rows = source.dims(0), columns = source.dims(1);
  size_t width = bytes->size() / std::max<int64_t>(rows * columns, 1);
  return transpose(*bytes, rows, columns, width);
}

FailureOr<bool> ParameterEditor::isUniform(int index) {
  const TensorProto &tensor = get(index);
  FailureOr<std::vector<char>> bytes = readBytes(index);
  if (failed(bytes))
    return failure();
  int64_t count = 1;
  for (int64_t size : tensor.dims())
    count *= size;
  if (count < 1)
    return true;
  StringRef text(bytes->data(), bytes->size());
  size_t width = text.size() / count;
  return text.drop_front(width) == text.drop_back(width);
}

static bool haveTransposedTypes(const TensorProto &a, const TensorProto &b) {
  return a.data_type() == b.data_type() && a.dims_size() == 2 &&
         b.dims_size() == 2 && a.dims(0) == b.dims(1) && a.dims(1) == b.dims(0);
}

FailureOr<bool> ParameterEditor::isTranspose(int index, int other) {
  if (!haveTransposedTypes(get(index), get(other)))
    return false;
  FailureOr<std::string> expected = readTransposedBytes(index);
  FailureOr<std::vector<char>> bytes = readBytes(other);
  if (failed(expected) || failed(bytes))
    return failure();
  return StringRef(bytes->data(), bytes->size()) == *expected;
}

FailureOr<std::optional<int>> ParameterEditor::findTransposed(int index) {
  const TensorProto &source = get(index);
  std::optional<std::string> expected;
  for (int other = 0; other < numOriginalInitializers; ++other) {
    const TensorProto &tensor = get(other);
    if (StringRef(tensor.name()).starts_with("onnx::") ||
        !haveTransposedTypes(source, tensor))
      continue;
    if (!expected) {
      FailureOr<std::string> bytes = readTransposedBytes(index);
      if (failed(bytes))
        return failure();
      expected = std::move(*bytes);
      size_t width = expected->size() /
                     std::max<int64_t>(source.dims(0) * source.dims(1), 1);
      bool isUniform = StringRef(*expected).drop_front(width) ==
                       StringRef(*expected).drop_back(width);
      if (isUniform)
        return std::optional<int>();
    }
    FailureOr<std::vector<char>> bytes = readBytes(other);
    if (failed(bytes))
      return failure();
    if (StringRef(bytes->data(), bytes->size()) == *expected)
      return std::optional(other);
  }
  return std::optional<int>();
}

LogicalResult ParameterEditor::addTransposed(int index, StringRef name) {
  const TensorProto &source = get(index);
  FailureOr<std::string> bytes = readTransposedBytes(index);
  if (failed(bytes))
    return failure();
  int64_t rows = source.dims(0), columns = source.dims(1);
  TensorProto added;
  added.set_name(name.str());
  added.set_data_type(source.data_type());
  added.add_dims(columns);
  added.add_dims(rows);
  added.set_raw_data(std::move(*bytes));
  initializers[name] = model.addInitializer(std::move(added));
  return success();
}

LogicalResult ParameterEditor::readTransposed(NodeInput place, StringRef name) {
  int read = *findRead(place);
  ArrayRef<int64_t> shape = getShape(get(read));
  int64_t swapped[] = {shape[1], shape[0]};
  if (!find(name)) {
    if (failed(addTransposed(read, name)))
      return failure();
  } else if (failed(checkShape(place, name, swapped))) {
    return failure();
  }
  std::string &value = transposed[name];
  auto &graph = *model.getProto().mutable_graph();
  if (value.empty()) {
    value = names.makeNew(name.str() + ".transposed");
    NodeProto &node = *graph.add_node();
    node.set_op_type("Transpose");
    // The new node belongs to the module of the node that reads it.
    *node.mutable_metadata_props() = getNode(place.node).metadata_props();
    node.set_name(names.makeNew(getNode(place.node).name() + "_Transpose"));
    node.add_input(name.str());
    node.add_output(value);
  }
  replace(place, value);
  return success();
}
