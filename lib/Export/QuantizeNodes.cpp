//===- QuantizeNodes.cpp - FP8 in ONNX's words ----------------------------===//

#include "QuantizeNodes.h"
#include "Numbers.h"

using namespace mlir;
using namespace mlir::binade::convert;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

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

/// Rule `inverse`: 1 / s with s = F / A, F being the largest number of `type`
/// and A the largest magnitude; 1 where A is 0, infinite or NaN.
std::string QuantizeNodes::addScale(const std::string &name,
                                    const std::string &value, int32_t type) {
  const std::string &most =
      getScalar("largest_f32", std::numeric_limits<float>::max());
  std::string magnitudes = addNode("Abs", {value}, name + "_magnitudes");
  std::string largest = addNode("ReduceMax", {magnitudes}, name + "_largest");
  auto &attribute = *graph.mutable_node()->rbegin()->add_attribute();
  attribute.set_name("keepdims");
  attribute.set_type(::onnx::AttributeProto::INT);
  attribute.set_i(0);
  std::string quotient =
      addNode("Div", {getScalar("largest_code", getLargest(type)), largest},
              name + "_quotient");
  std::string finite = addNode("Min", {quotient, most}, name + "_finite");
  std::string above =
      addNode("Greater", {largest, getScalar("zero", 0.0f)}, name + "_above");
  std::string below = addNode("LessOrEqual", {largest, most}, name + "_below");
  std::string isNumber = addNode("And", {above, below}, name + "_is_number");
  std::string factor = addNode(
      "Where", {isNumber, finite, getScalar("one", 1.0f)}, name + "_factor");
  return addNode("Reciprocal", {factor}, name + "_scale");
}

std::string QuantizeNodes::quantize(const std::string &name,
                                    const std::string &value, int32_t type) {
  std::string scale = addScale(name, value, type);
  std::string &zero = zeroPoints[type];
  if (zero.empty()) {
    TensorProto &tensor = tensors.emplace_back();
    tensor.set_name(names.makeNew("zero_point"));
    tensor.set_data_type(type);
    tensor.set_raw_data(std::string(1, 0));
    zero = tensor.name();
  }
  std::string codes =
      addNode("QuantizeLinear", {value, scale, zero}, name + "_codes");
  return dequantize(name, codes, scale);
}

std::string QuantizeNodes::dequantize(const std::string &name,
                                      const std::string &codes,
                                      const std::string &scale) {
  return addNode("DequantizeLinear", {codes, scale}, name + "_dequantized");
}

void QuantizeNodes::finish() {
  for (TensorProto &tensor : tensors)
    *graph.add_initializer() = std::move(tensor);
}
