//===- OnnxWriter.cpp - Construction of ONNX graphs -----------------------===//

#include "OnnxWriter.h"
#include "binade/IR/Names.h"
#include <cmath>

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
  bool isWide = type.isF32() || isa<Float8E8M0FNUType>(type);
  return isWide                        ? TensorProto::FLOAT
         : type.isF16()                ? TensorProto::FLOAT16
         : type.isBF16()               ? TensorProto::BFLOAT16
         : isa<Float8E4M3FNType>(type) ? TensorProto::FLOAT8E4M3FN
         : isa<Float8E5M2Type>(type)   ? TensorProto::FLOAT8E5M2
                                       : TensorProto::UNDEFINED;
}

DenseElementsAttr
mlir::binade::convert::roundElements(DenseFPElementsAttr numbers,
                                     FloatType format) {
  return numbers.mapValues(format, [&](APFloat number) {
    bool isExact;
    number.convert(format.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                   &isExact);
    return number.bitcastToAPInt();
  });
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

const std::string &OnnxWriter::addTable(DenseElementsAttr values) {
  std::string &name = tables[values.getAsOpaquePointer()];
  if (name.empty()) {
    name = makeName(values.getType().getRank() ? "table" : "number");
    // Callers use supported types only.
    (void)addTensor(b.getUnknownLoc(), name, values);
  }
  return name;
}

const std::string &OnnxWriter::addNumber(TypedAttr value) {
  auto type = RankedTensorType::get({}, value.getType());
  return addTable(DenseElementsAttr::get(type, Attribute(value)));
}

const std::string &OnnxWriter::addFloat(double value) {
  return addNumber(b.getF32FloatAttr(static_cast<float>(value)));
}

const std::string &OnnxWriter::addDouble(double value) {
  return addNumber(b.getF64FloatAttr(value));
}

const std::string &OnnxWriter::addInt(int64_t value) {
  return addNumber(b.getI64IntegerAttr(value));
}

/// Returns the bytes of all elements; those of a splat are repeated.
static std::string getRawData(DenseElementsAttr elements) {
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
  if (auto powers = dyn_cast<DenseFPElementsAttr>(value);
      powers && isa<Float8E8M0FNUType>(type.getElementType()))
    value = roundElements(powers, b.getF32Type());
  TensorProto &tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(number);
  for (int64_t size : type.getShape())
    tensor.add_dims(size);
  if (auto elements = dyn_cast<DenseElementsAttr>(value)) {
    tensor.set_raw_data(getRawData(elements));
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

std::string OnnxWriter::addCast(const std::string &value, int32_t type,
                                const std::string &) {
  std::string result = add("Cast", {value});
  setInt("to", type);
  return result;
}

std::string OnnxWriter::cast(const std::string &value, Type type) {
  return addCast(value, getElementNumber(type), "");
}

/// Finds the sign of zeros by their reciprocals.
std::string OnnxWriter::isNegative(const std::string &value, FloatType type) {
  std::string zero = addNumber(FloatAttr::get(type, 0.0));
  std::string isZero = add("Equal", {value, zero});
  std::string infinite = add("Reciprocal", {value});
  return add("Less", {add("Where", {isZero, infinite, value}), zero});
}

/// Multiplies by 1 or -1. Where would lose the sign of zeros: onnxruntime
/// implements it by adding zeros for the elements that are not selected.
std::string OnnxWriter::copySign(const std::string &magnitude,
                                 const std::string &sign, FloatType type) {
  std::string minus = addNumber(FloatAttr::get(type, -1.0));
  std::string plus = addNumber(FloatAttr::get(type, 1.0));
  std::string isBelow = isNegative(sign, type);
  return add("Mul", {magnitude, add("Where", {isBelow, minus, plus})});
}

std::string OnnxWriter::bitcast(const std::string &value, Type type) {
  castsBits = true;
  std::string result = add("BitCast", {value});
  setInt("to", getElementNumber(type));
  return result;
}

std::string OnnxWriter::reshape(const std::string &value,
                                ArrayRef<int64_t> shape) {
  std::string result = add("Reshape", {value, addInts(shape)});
  // A length of 0 means 0, not the length of the operand.
  setInt("allowzero", 1);
  return result;
}

std::string OnnxWriter::transpose(const std::string &value,
                                  ArrayRef<int64_t> axes) {
  std::string result = add("Transpose", {value});
  setInts("perm", axes);
  return result;
}

std::string OnnxWriter::slice(const std::string &value,
                              ArrayRef<int64_t> starts,
                              ArrayRef<int64_t> ends) {
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, starts.size()));
  return add("Slice", {value, addInts(starts), addInts(ends), addInts(axes)});
}

std::string OnnxWriter::reduce(StringRef op, const std::string &value,
                               ArrayRef<int64_t> axes) {
  if (axes.empty()) // Empty axes would mean all axes.
    return value;
  std::string result = add(op, {value, addInts(axes)});
  setInt("keepdims", 0);
  return result;
}

std::string OnnxWriter::reduceMax(const std::string &value,
                                  ArrayRef<int64_t> axes) {
  if (axes.empty())
    return value;
  std::string most = reduce("ReduceMax", value, axes);
  std::string count = cast(add("IsNaN", {value}), b.getF32Type());
  std::string isAny = cast(reduce("ReduceMax", count, axes), b.getI1Type());
  return add("Where", {isAny, addFloat(NAN), most});
}

std::string OnnxWriter::addRange(int64_t count) {
  return add("Range", {addInt(0), addInt(count), addInt(1)});
}

/// Returns a type that represents the values of `type` and for which runtimes
/// implement Where.
static Type getWidened(Type type, Builder &b) {
  if (type.getIntOrFloatBitWidth() >= 32)
    return type;
  return isa<FloatType>(type) ? Type(b.getF32Type()) : b.getI32Type();
}

std::string OnnxWriter::choose(const std::string &condition,
                               const std::string &yes, const std::string &no,
                               Type type) {
  if (type.isInteger(1)) {
    std::string both = add("And", {condition, yes});
    return add("Or", {both, add("And", {add("Not", {condition}), no})});
  }
  Type through = getWidened(type, b);
  if (through == type)
    return add("Where", {condition, yes, no});
  return cast(add("Where", {condition, cast(yes, through), cast(no, through)}),
              type);
}

static bool isNarrow(Value value) {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(value));
  return type && type.getWidth() < 32 && !isa<Float8E8M0FNUType>(type);
}

std::string OnnxWriter::getWide(Value value) {
  if (!isNarrow(value))
    return get(value);
  return cast(get(value), Float32Type::get(value.getContext()));
}

void OnnxWriter::setWide(Value value, const std::string &name) {
  set(value, isNarrow(value) ? cast(name, getElementTypeOrSelf(value)) : name);
}
