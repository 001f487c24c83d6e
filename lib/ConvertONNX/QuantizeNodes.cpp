//===- QuantizeNodes.cpp - ONNX nodes of FP8 quantization -----------------===//

#include "QuantizeNodes.h"
#include "Formats.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::onnx::AttributeProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

//===----------------------------------------------------------------------===//
// Nodes and constants
//===----------------------------------------------------------------------===//

std::string QuantizeNodes::addNode(const char *op, ArrayRef<std::string> inputs,
                                   const std::string &output) {
  NodeProto &node = *graph.add_node();
  node.set_op_type(op);
  std::string name = names.makeNew(output);
  node.set_name(names.makeNew(op + ("_" + name)));
  for (const std::string &input : inputs)
    node.add_input(input);
  node.add_output(name);
  return name;
}

void QuantizeNodes::setInt(const char *name, int64_t value) {
  AttributeProto &attribute = *graph.mutable_node()->rbegin()->add_attribute();
  attribute.set_name(name);
  attribute.set_type(AttributeProto::INT);
  attribute.set_i(value);
}

void QuantizeNodes::setInts(const char *name, ArrayRef<int64_t> values) {
  AttributeProto &attribute = *graph.mutable_node()->rbegin()->add_attribute();
  attribute.set_name(name);
  attribute.set_type(AttributeProto::INTS);
  for (int64_t value : values)
    attribute.add_ints(value);
}

std::string QuantizeNodes::addCast(const std::string &value, int32_t type,
                                   const std::string &output) {
  std::string result = addNode("Cast", {value}, output);
  setInt("to", type);
  return result;
}

std::string QuantizeNodes::addScalar(const std::string &name, float value) {
  TensorProto &tensor = tensors.emplace_back();
  tensor.set_name(names.makeNew(name));
  tensor.set_data_type(TensorProto::FLOAT);
  tensor.add_float_data(value);
  return tensor.name();
}

const std::string &QuantizeNodes::getScalar(const char *name, float value) {
  std::string &scalar = scalars[{name, value}];
  if (scalar.empty())
    scalar = addScalar(name, value);
  return scalar;
}

const std::string &QuantizeNodes::getDouble(const char *name, double value) {
  std::string &scalar = scalars[{name, value}];
  if (scalar.empty()) {
    TensorProto &tensor = tensors.emplace_back();
    tensor.set_name(names.makeNew(name));
    tensor.set_data_type(TensorProto::DOUBLE);
    tensor.add_double_data(value);
    scalar = tensor.name();
  }
  return scalar;
}

const std::string &QuantizeNodes::getInts(const char *name,
                                          ArrayRef<int64_t> values,
                                          bool isScalar) {
  std::string &constant = integers[{name, values}];
  if (constant.empty()) {
    TensorProto &tensor = tensors.emplace_back();
    tensor.set_name(names.makeNew(name));
    tensor.set_data_type(TensorProto::INT64);
    if (!isScalar)
      tensor.add_dims(values.size());
    for (int64_t value : values)
      tensor.add_int64_data(value);
    constant = tensor.name();
  }
  return constant;
}

/// The zero point determines the type of the quantized values.
const std::string &QuantizeNodes::getZeroPoint(int32_t type) {
  std::string &zero = zeroPoints[type];
  if (zero.empty()) {
    TensorProto &tensor = tensors.emplace_back();
    tensor.set_name(names.makeNew("zero_point"));
    tensor.set_data_type(type);
    tensor.set_raw_data(std::string(1, 0));
    zero = tensor.name();
  }
  return zero;
}

void QuantizeNodes::finish() {
  for (TensorProto &tensor : tensors)
    *graph.add_initializer() = std::move(tensor);
}

//===----------------------------------------------------------------------===//
// Quantization
//===----------------------------------------------------------------------===//

/// Adds the largest magnitude of each block, with the same rank as `value`.
std::string QuantizeNodes::addLargest(const std::string &name,
                                      const std::string &value,
                                      const QuantizedInput &format) {
  std::string magnitudes = addNode("Abs", {value}, name + "_magnitudes");
  if (format.block.empty()) {
    std::string largest = addNode("ReduceMax", {magnitudes}, name + "_largest");
    setInt("keepdims", 0);
    return largest;
  }
  // MaxPool supports shorter blocks at the end. It requires two axes before the
  // spatial ones.
  size_t rank = format.block.size(), divided = std::max<size_t>(rank, 4) - 2;
  SmallVector<int64_t> before;
  for (size_t axis = 0; axis + rank < divided + 2; ++axis)
    before.push_back(axis);
  std::string largest = magnitudes;
  if (!before.empty())
    largest = addNode("Unsqueeze", {largest, getInts("axes", before)},
                      name + "_magnitudes");
  for (size_t i = 1; i <= std::min(rank, divided); ++i) {
    if (format.block[rank - i] == 1)
      continue;
    SmallVector<int64_t> extent(divided, 1);
    extent[divided - i] = format.block[rank - i];
    largest = addNode("MaxPool", {largest}, name + "_largest");
    setInts("kernel_shape", extent);
    setInts("strides", extent);
    setInt("ceil_mode", 1);
  }
  return before.empty() ? largest
                        : addNode("Squeeze", {largest, getInts("axes", before)},
                                  name + "_largest");
}

/// Repeats the scales of tiles for each row.
Scales QuantizeNodes::spread(const std::string &name, const std::string &value,
                             const Scales &scales,
                             const QuantizedInput &format) {
  if (!format.isTile())
    return scales;
  std::string rows = addNode("Shape", {value}, name + "_rows");
  setInt("start", 0);
  setInt("end", 1);
  std::string count =
      addNode("Squeeze", {rows, getInts("axes", {0})}, name + "_rows");
  std::string each = addNode("Range",
                             {getInts("first", {0}, /*isScalar=*/true), count,
                              getInts("step", {1}, /*isScalar=*/true)},
                             name + "_rows");
  std::string tiles = addNode(
      "Div", {each, getInts("height", {format.block[0]}, /*isScalar=*/true)},
      name + "_tiles");
  auto gather = [&](const std::string &from) {
    return addNode("Gather", {from, tiles}, name + "_scale");
  };
  std::string divisors = gather(scales.divisors);
  bool isSame = scales.factors == scales.divisors;
  return {divisors, isSame ? divisors : gather(scales.factors), {}};
}

std::string QuantizeNodes::quantize(const std::string &name,
                                    const std::string &value,
                                    const QuantizedInput &format) {
  if (format.isFlat) {
    QuantizedInput inside = format;
    inside.isFlat = false;
    std::string flat =
        addNode("Reshape", {value, getInts("flat", {-1})}, name + "_flat");
    std::string shape = addNode("Shape", {value}, name + "_shape");
    return addNode("Reshape", {quantize(name, flat, inside), shape},
                   name + "_dequantized");
  }
  int32_t type = getOnnxType(format.format.getFormat());
  Scales scales = ScaleNodes(*this).add(name, addLargest(name, value, format),
                                        format.format);
  scales = spread(name, value, scales, format);
  SmallVector<std::string> inputs = {value, scales.divisors};
  if (format.block.empty())
    inputs.push_back(getZeroPoint(type));
  std::string codes = addNode("QuantizeLinear", inputs, name + "_codes");
  if (!format.block.empty()) {
    // A zero point would need one element per scale, so specify the type
    // instead.
    setInt("axis", format.getAxis());
    setInt("block_size", format.block[format.getAxis()]);
    setInt("output_dtype", type);
  }
  return dequantize(name, codes, scales.factors, format);
}

std::string QuantizeNodes::dequantize(const std::string &name,
                                      const std::string &codes,
                                      const std::string &scales,
                                      const QuantizedInput &format) {
  std::string result =
      addNode("DequantizeLinear", {codes, scales}, name + "_dequantized");
  if (!format.block.empty()) {
    setInt("axis", format.getAxis());
    setInt("block_size", format.block[format.getAxis()]);
  }
  return result;
}
