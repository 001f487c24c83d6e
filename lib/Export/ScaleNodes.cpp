//===- ScaleNodes.cpp - How scales follow from magnitudes -----------------===//
// The rules of `#binade.quantized`, as nodes. The same numbers as the
// compiled step's: arithmetic is f32, or f64 where the result is exact.
//===----------------------------------------------------------------------===//

#include "Formats.h"
#include "QuantizeNodes.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::onnx::TensorProto;

static constexpr float kMost = std::numeric_limits<float>::max();
static constexpr float kLeastNormal = std::numeric_limits<float>::min();
/// What scales of powers of two are between.
static constexpr float kLeastPower = 0x1p-127f, kLargestPower = 0x1p127f;
/// What COAT adds to magnitudes.
static constexpr float kOffset = 1e-10f;

/// The largest power of two that is no more than `value`, which is positive and
/// finite: its unit in the first place, as Rump has it. In f64 nothing of f32
/// overflows on the way, and subnormals are like other numbers.
std::string QuantizeNodes::addPower(const std::string &name,
                                    const std::string &value) {
  std::string wide = addCast(value, TensorProto::DOUBLE, name + "_wide");
  std::string far =
      addNode("Mul", {wide, getDouble("split", 0x1p52 + 1.0)}, name + "_far");
  std::string near = addNode(
      "Mul", {far, getDouble("below_one", 1.0 - 0x1p-53)}, name + "_near");
  std::string power = addNode("Sub", {far, near}, name + "_power");
  return addCast(power, TensorProto::FLOAT, name + "_power");
}

/// A / F; where A is 0 what makes codes of zeros.
std::string QuantizeNodes::addAmaxScales(const std::string &name,
                                         const std::string &largest,
                                         QuantizedAttr format) {
  std::string quotient =
      addNode("Div", {largest, getScalar("largest_code", format.getLargest())},
              name + "_quotient");
  std::string normal =
      addNode("Max", {quotient, getScalar("least_scale", kLeastNormal)},
              name + "_normal");
  std::string isZero =
      addNode("Equal", {largest, getScalar("zero", 0.0f)}, name + "_is_zero");
  return addNode(
      "Where",
      {isZero, getScalar("scale_of_zeros", format.getScaleOfZeros()), normal},
      name + "_scale");
}

/// 1 / s with s = F / A, or the power of two below; 1 where A is 0, infinite or
/// NaN.
std::string QuantizeNodes::addInverseScales(const std::string &name,
                                            const std::string &largest,
                                            QuantizedAttr format) {
  const std::string most = getScalar("largest_f32", kMost);
  std::string quotient =
      addNode("Div", {getScalar("largest_code", format.getPeak()), largest},
              name + "_quotient");
  std::string finite = addNode("Min", {quotient, most}, name + "_finite");
  std::string above =
      addNode("Greater", {largest, getScalar("zero", 0.0f)}, name + "_above");
  std::string below = addNode("LessOrEqual", {largest, most}, name + "_below");
  std::string isNumber = addNode("And", {above, below}, name + "_is_number");
  std::string factor = addNode(
      "Where", {isNumber, finite, getScalar("one", 1.0f)}, name + "_factor");
  if (format.getRule() == ScaleRule::InversePower)
    factor = addPower(name, factor);
  return addNode("Reciprocal", {factor}, name + "_scale");
}

/// A cut to a power of two, by that of F.
std::string QuantizeNodes::addFloorScales(const std::string &name,
                                          const std::string &largest,
                                          QuantizedAttr format) {
  float unit = std::ldexp(1.0f, -std::ilogb(format.getLargest()));
  std::string scale =
      addNode("Mul", {addPower(name, largest), getScalar("unit", unit)},
              name + "_unit");
  return addNode("Max", {scale, getScalar("least_power", kLeastPower)},
                 name + "_scale");
}

/// A (1 / F), rounded up to a power of two.
std::string QuantizeNodes::addRoundUpScales(const std::string &name,
                                            const std::string &largest,
                                            QuantizedAttr format) {
  float inverse = 1.0f / static_cast<float>(format.getLargest());
  std::string exact =
      addNode("Mul", {largest, getScalar("inverse", inverse)}, name + "_exact");
  std::string finite =
      addNode("Min", {exact, getScalar("largest_power", kLargestPower)},
              name + "_finite");
  std::string power = addPower(name, finite);
  std::string twice = addNode("Add", {power, power}, name + "_twice");
  std::string isBelow = addNode("Less", {power, finite}, name + "_is_below");
  std::string up = addNode("Where", {isBelow, twice, power}, name + "_up");
  return addNode("Max", {up, getScalar("least_power", kLeastPower)},
                 name + "_scale");
}

QuantizeNodes::Scales QuantizeNodes::addScales(const std::string &name,
                                               const std::string &largest,
                                               QuantizedAttr format) {
  std::string scales;
  switch (format.getRule()) {
  case ScaleRule::Amax:
    scales = addAmaxScales(name, largest, format);
    break;
  case ScaleRule::AmaxOffset: {
    std::string above = addNode("Add", {largest, getScalar("offset", kOffset)},
                                name + "_above");
    scales =
        addNode("Div", {above, getScalar("largest_code", format.getLargest())},
                name + "_scale");
    break;
  }
  case ScaleRule::Inverse:
  case ScaleRule::InversePower:
    scales = addInverseScales(name, largest, format);
    break;
  case ScaleRule::Floor:
    scales = addFloorScales(name, largest, format);
    break;
  case ScaleRule::RoundUp:
    scales = addRoundUpScales(name, largest, format);
    break;
  }
  if (!format.getScale().isBF16())
    return {scales, scales}; // Powers of two are themselves in any format.
  std::string narrow =
      addCast(scales, TensorProto::BFLOAT16, name + "_scale_bf16");
  std::string stored = addCast(narrow, TensorProto::FLOAT, name + "_scale");
  bool dividesByStored = format.getRule() == ScaleRule::Amax;
  return {dividesByStored ? stored : scales, stored};
}
