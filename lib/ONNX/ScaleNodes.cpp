//===- ScaleNodes.cpp - ONNX nodes that compute scales --------------------===//
// Computes scales by the rules of `#binade.quantized`, with the same bits as
// the compiled step: arithmetic is in f32, or in f64 where the result is exact.
// In comments, A is the largest magnitude of a group, and F that of the format.
//===----------------------------------------------------------------------===//

#include "binade/ONNX/ScaleNodes.h"
#include "onnx-ml.pb.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::binade;
using ::onnx::TensorProto;

static constexpr float kMax = std::numeric_limits<float>::max();
static constexpr float kMinNormal = std::numeric_limits<float>::min();
/// The range of scales in f16.
static constexpr float kMinHalf = 0x1p-24f, kMaxHalf = 65504.0f;
/// The range of scales that are powers of two.
static constexpr float kMinPower = 0x1p-127f, kLargestPower = 0x1p127f;
/// The constant that COAT adds to the largest magnitudes.
static constexpr float kOffset = 1e-10f;

NodeSink::~NodeSink() = default;

/// Computes far - far 2^-53 instead of far (1 - 2^-53), which is equal after
/// rounding: onnxruntime removes a multiplication by an f64 factor that is 1
/// when rounded to f32.
std::string ScaleNodes::addUnit(const std::string &name,
                                const std::string &wide) {
  std::string far = sink.addNode(
      "Mul", {wide, sink.getDouble("split", 0x1p52 + 1.0)}, name + "_far");
  std::string step = sink.addNode(
      "Mul", {far, sink.getDouble("half_unit", 0x1p-53)}, name + "_step");
  std::string near = sink.addNode("Sub", {far, step}, name + "_near");
  return sink.addNode("Sub", {far, near}, name + "_power");
}

/// Returns the largest power of two that is not larger than `value`, in f32.
std::string ScaleNodes::addPower(const std::string &name,
                                 const std::string &value) {
  std::string wide = sink.addCast(value, TensorProto::DOUBLE, name + "_wide");
  return sink.addCast(addUnit(name, wide), TensorProto::FLOAT, name + "_power");
}

/// A / F, limited to the scales of the format; its scale of zeros if A is 0.
std::string ScaleNodes::addAmaxScales(const std::string &name,
                                      const std::string &largest,
                                      QuantizedAttr format) {
  std::string quotient = sink.addNode(
      "Div", {largest, sink.getScalar("largest_code", format.getLargest())},
      name + "_quotient");
  bool isHalf = format.getScale().isF16();
  std::string normal =
      sink.addNode("Max",
                   {quotient, sink.getScalar("smallest_scale",
                                             isHalf ? kMinHalf : kMinNormal)},
                   name + "_normal");
  if (isHalf) {
    std::string limited =
        sink.addNode("Min", {normal, sink.getScalar("largest_scale", kMaxHalf)},
                     name + "_limited");
    std::string isFinite = sink.addNode(
        "LessOrEqual", {largest, sink.getScalar("largest_f32", kMax)},
        name + "_is_finite");
    normal =
        sink.addNode("Where", {isFinite, limited, normal}, name + "_in_range");
  }
  std::string isZero = sink.addNode(
      "Equal", {largest, sink.getScalar("zero", 0.0f)}, name + "_is_zero");
  return sink.addNode(
      "Where",
      {isZero, sink.getScalar("scale_of_zeros", format.getScaleOfZeros()),
       normal},
      name + "_scale");
}

/// 1 / s with s = F / A, or s rounded down to a power of two; s is 1 if A is 0,
/// infinite or NaN.
Scales ScaleNodes::addInverseScales(const std::string &name,
                                    const std::string &largest,
                                    QuantizedAttr format) {
  const std::string most = sink.getScalar("largest_f32", kMax);
  std::string quotient = sink.addNode(
      "Div", {sink.getScalar("largest_code", format.getPeak()), largest},
      name + "_quotient");
  std::string finite = sink.addNode("Min", {quotient, most}, name + "_finite");
  std::string above = sink.addNode(
      "Greater", {largest, sink.getScalar("zero", 0.0f)}, name + "_above");
  std::string below =
      sink.addNode("LessOrEqual", {largest, most}, name + "_below");
  std::string isNumber =
      sink.addNode("And", {above, below}, name + "_is_number");
  std::string factor =
      sink.addNode("Where", {isNumber, finite, sink.getScalar("one", 1.0f)},
                   name + "_factor");
  if (format.getRule() == ScaleRule::InversePower)
    factor = addPower(name, factor);
  std::string scale = sink.addNode("Reciprocal", {factor}, name + "_scale");
  return {scale, scale, factor};
}

/// A rounded down to a power of two, divided by F rounded down to one.
std::string ScaleNodes::addFloorScales(const std::string &name,
                                       const std::string &largest,
                                       QuantizedAttr format) {
  float unit = std::ldexp(1.0f, -std::ilogb(format.getLargest()));
  std::string scale = sink.addNode(
      "Mul", {addPower(name, largest), sink.getScalar("unit", unit)},
      name + "_unit");
  return sink.addNode("Max",
                      {scale, sink.getScalar("smallest_power", kMinPower)},
                      name + "_scale");
}

/// A * (1 / F), rounded up to a power of two.
std::string ScaleNodes::addRoundUpScales(const std::string &name,
                                         const std::string &largest,
                                         QuantizedAttr format) {
  float inverse = 1.0f / static_cast<float>(format.getLargest());
  std::string exact = sink.addNode(
      "Mul", {largest, sink.getScalar("inverse", inverse)}, name + "_exact");
  std::string finite = sink.addNode(
      "Min", {exact, sink.getScalar("largest_power", kLargestPower)},
      name + "_finite");
  std::string power = addPower(name, finite);
  std::string twice = sink.addNode("Add", {power, power}, name + "_twice");
  std::string isBelow =
      sink.addNode("Less", {power, finite}, name + "_is_below");
  std::string up = sink.addNode("Where", {isBelow, twice, power}, name + "_up");
  return sink.addNode("Max", {up, sink.getScalar("smallest_power", kMinPower)},
                      name + "_scale");
}

Scales ScaleNodes::add(const std::string &name, const std::string &largest,
                       QuantizedAttr format) {
  Scales scales;
  switch (format.getRule()) {
  case ScaleRule::Amax:
    scales.divisors = addAmaxScales(name, largest, format);
    break;
  case ScaleRule::AmaxOffset: {
    std::string above = sink.addNode(
        "Add", {largest, sink.getScalar("offset", kOffset)}, name + "_above");
    scales.divisors = sink.addNode(
        "Div", {above, sink.getScalar("largest_code", format.getLargest())},
        name + "_scale");
    break;
  }
  case ScaleRule::Inverse:
  case ScaleRule::InversePower:
    scales = addInverseScales(name, largest, format);
    break;
  case ScaleRule::Floor:
    scales.divisors = addFloorScales(name, largest, format);
    break;
  case ScaleRule::RoundUp:
    scales.divisors = addRoundUpScales(name, largest, format);
    break;
  case ScaleRule::RoundedInverse:
  case ScaleRule::RoundedHeadroom:
  case ScaleRule::RoundedFourSix:
  case ScaleRule::RoundedEden:
    llvm_unreachable("scales in E4M3 have nodes of their own");
  }
  scales.factors = scales.divisors;
  bool isHalf = format.getScale().isF16();
  if (!isHalf && !format.getScale().isBF16())
    return scales; // f32 scales and powers of two need no rounding.
  std::string narrow = sink.addCast(
      scales.divisors, isHalf ? TensorProto::FLOAT16 : TensorProto::BFLOAT16,
      name + (isHalf ? "_scale_f16" : "_scale_bf16"));
  scales.factors = sink.addCast(narrow, TensorProto::FLOAT, name + "_scale");
  if (format.getRule() == ScaleRule::Amax && !format.getCompanded())
    scales.divisors = scales.factors;
  return scales;
}
