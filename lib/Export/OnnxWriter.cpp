//===- OnnxWriter.cpp - A graph that is written node by node --------------===//

#include "OnnxWriter.h"
#include "binade/IR/Names.h"
#include <bit>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::onnx::AttributeProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

int32_t mlir::binade::convert::getElementNumber(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type)) {
    bool isUnsigned = integer.isUnsigned();
    switch (integer.getWidth()) {
    case 1:
      return TensorProto::BOOL;
    case 8:
      return isUnsigned ? TensorProto::UINT8 : TensorProto::INT8;
    case 16:
      return isUnsigned ? TensorProto::UINT16 : TensorProto::INT16;
    case 32:
      return isUnsigned ? TensorProto::UINT32 : TensorProto::INT32;
    case 64:
      return isUnsigned ? TensorProto::UINT64 : TensorProto::INT64;
    }
    return TensorProto::UNDEFINED;
  }
  if (type.isF64())
    return TensorProto::DOUBLE;
  return type.isF32()                  ? TensorProto::FLOAT
         : type.isF16()                ? TensorProto::FLOAT16
         : type.isBF16()               ? TensorProto::BFLOAT16
         : isa<Float8E4M3FNType>(type) ? TensorProto::FLOAT8E4M3FN
         : isa<Float8E5M2Type>(type)   ? TensorProto::FLOAT8E5M2
                                       : TensorProto::UNDEFINED;
}

void OnnxWriter::setLoc(Location loc) {
  if (auto fused = dyn_cast<FusedLoc>(loc);
      fused && !fused.getLocations().empty())
    loc = fused.getLocations().front();
  auto name = dyn_cast<NameLoc>(loc);
  place = name ? name.getName().str() : std::string();
}

std::string OnnxWriter::add(StringRef op, ArrayRef<std::string> inputs) {
  NodeProto &node = *graph.add_node();
  node.set_op_type(op.str());
  node.set_name(makeName(place.empty() ? op : StringRef(place)));
  for (const std::string &input : inputs)
    node.add_input(input);
  return addResult();
}

std::string OnnxWriter::addResult() {
  NodeProto &node = *graph.mutable_node()->rbegin();
  std::string name = makeName(node.name() + "." + node.op_type());
  node.add_output(name);
  return name;
}

AttributeProto &OnnxWriter::addAttribute(StringRef name, int type) {
  AttributeProto &attribute = *graph.mutable_node()->rbegin()->add_attribute();
  attribute.set_name(name.str());
  attribute.set_type(static_cast<AttributeProto::AttributeType>(type));
  return attribute;
}

void OnnxWriter::setInts(StringRef name, ArrayRef<int64_t> values) {
  AttributeProto &attribute = addAttribute(name, AttributeProto::INTS);
  for (int64_t value : values)
    attribute.add_ints(value);
}

void OnnxWriter::setInt(StringRef name, int64_t value) {
  addAttribute(name, AttributeProto::INT).set_i(value);
}

void OnnxWriter::setFloat(StringRef name, float value) {
  addAttribute(name, AttributeProto::FLOAT).set_f(value);
}

void OnnxWriter::setString(StringRef name, StringRef value) {
  addAttribute(name, AttributeProto::STRING).set_s(value.str());
}

const std::string &OnnxWriter::addInts(ArrayRef<int64_t> values) {
  std::string &name = integers[values.vec()];
  if (name.empty()) {
    TensorProto &tensor = *graph.add_initializer();
    tensor.set_name(name = makeName("integers"));
    tensor.set_data_type(TensorProto::INT64);
    tensor.add_dims(values.size());
    for (int64_t value : values)
      tensor.add_int64_data(value);
  }
  return name;
}

const std::string &OnnxWriter::addFloat(double value) {
  auto number = static_cast<float>(value);
  std::string &name = numbers[std::bit_cast<uint32_t>(number)];
  if (name.empty()) {
    TensorProto &tensor = *graph.add_initializer();
    tensor.set_name(name = makeName("number"));
    tensor.set_data_type(TensorProto::FLOAT);
    tensor.add_float_data(number);
  }
  return name;
}

/// The bytes of all elements, a splat's too.
static std::string getBytes(DenseElementsAttr elements) {
  std::string bytes;
  if (elements.getElementType().isInteger(1)) {
    for (bool flag : elements.getValues<bool>())
      bytes.push_back(flag);
    return bytes;
  }
  ArrayRef<char> raw = elements.getRawData();
  int64_t copies = elements.isSplat() ? elements.getNumElements() : 1;
  for (int64_t i = 0; i < copies; ++i)
    bytes.append(raw.data(), raw.size());
  return bytes;
}

LogicalResult OnnxWriter::addTensor(Location loc, const std::string &name,
                                    Attribute value) {
  auto typed = cast<TypedAttr>(value);
  auto type = cast<RankedTensorType>(typed.getType());
  int32_t number = getElementNumber(type.getElementType());
  if (!number)
    return emitError(loc) << "ONNX has no constants of "
                          << type.getElementType();
  TensorProto &tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(number);
  for (int64_t size : type.getShape())
    tensor.add_dims(size);
  if (auto elements = dyn_cast<DenseElementsAttr>(value)) {
    tensor.set_raw_data(getBytes(elements));
    return success();
  }
  auto external = cast<ExternalAttr>(value);
  tensor.set_data_location(TensorProto::EXTERNAL);
  auto set = [&](const char *key, const std::string &text) {
    auto &entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(text);
  };
  set("location", external.getFile().str());
  set("offset", std::to_string(external.getOffset()));
  set("length", std::to_string(external.getBytes()));
  return success();
}

std::string OnnxWriter::cast(const std::string &value, Type type) {
  std::string result = add("Cast", {value});
  setInt("to", getElementNumber(type));
  return result;
}

std::string OnnxWriter::reshape(const std::string &value,
                                ArrayRef<int64_t> shape) {
  std::string result = add("Reshape", {value, addInts(shape)});
  // A length of 0 is one, not that of the operand.
  setInt("allowzero", 1);
  return result;
}

static bool isNarrow(Value value) {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(value));
  return type && type.getWidth() < 32;
}

std::string OnnxWriter::getWide(Value value) {
  if (!isNarrow(value))
    return get(value);
  return cast(get(value), Float32Type::get(value.getContext()));
}

void OnnxWriter::setWide(Value value, const std::string &name) {
  set(value, isNarrow(value) ? cast(name, getElementTypeOrSelf(value)) : name);
}
