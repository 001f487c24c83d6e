//===- ParameterStorage.cpp - Storage of 16-bit parameters ----------------===//

#include "ParameterStorage.h"
#include "binade/Container/FloatConversion.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

using namespace binade;
using plan::Master;

bool binade::isOfTraining(std::string_view name) {
  using plan::Role, plan::stateName;
  return name.starts_with(stateName(Role::State, "")) ||
         name.starts_with(stateName(Role::Scaler, "")) ||
         name == stateName(Role::Step, "") || name == stateName(Role::Rng, "");
}

/// Returns the remainder of an f32 parameter that is split: its low half.
static std::int16_t getLowHalf(float value) {
  return static_cast<std::int16_t>(std::bit_cast<std::uint32_t>(value));
}

/// The largest 8-bit code of a rounding error.
static constexpr double kMaxCode = 127;

/// Returns the largest rounding error of a number that becomes `rounded`, a
/// finite bf16: half the distance between bf16 values.
static double getLargestError(double rounded) {
  constexpr int kMinExponent = -126, kPrecision = 8;
  int exponent = rounded == 0.0 ? kMinExponent : std::ilogb(rounded);
  return std::ldexp(1.0, std::max(exponent, kMinExponent) - kPrecision);
}

/// Returns the code of the rounding error of `value` in bf16.
static std::int8_t encodeError(float value) {
  double rounded = bf16ToFloat(floatToBF16(value));
  if (!std::isfinite(rounded))
    return 0;
  double error = (value - rounded) / getLargestError(rounded);
  return static_cast<std::int8_t>(std::round(error * kMaxCode));
}

/// Adds the error with this code.
static float addError(float rounded, std::int8_t code) {
  if (!std::isfinite(rounded))
    return rounded;
  double error = code / kMaxCode * getLargestError(rounded);
  return static_cast<float>(rounded + error);
}

/// Returns the bits of `value` in the 16-bit format of a parameter. Only bf16,
/// the upper half of an f32, is split.
static std::uint16_t encode(float value, std::optional<Master> master,
                            DType dtype) {
  auto upper =
      static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  if (master == Master::SplitTrunc)
    return upper;
  if (master == Master::SplitRound)
    return upper + (getLowHalf(value) < 0 ? 1 : 0);
  return dtype == DType::BF16 ? floatToBF16(value) : floatToF16(value);
}

/// Returns the rounding error of `value` in a 16-bit format, in this format; 0
/// if the value overflows.
static std::uint16_t encodeRest(float value, DType dtype) {
  std::uint16_t rounded = encode(value, Master::Residual, dtype);
  float found =
      dtype == DType::BF16 ? bf16ToFloat(rounded) : f16ToFloat(rounded);
  float error = std::isfinite(found) ? value - found : 0.0f;
  return encode(error, Master::Residual, dtype);
}

/// Returns the f32 value of a parameter and its remainder.
static float decode(std::uint16_t upper, std::int16_t low, Master master) {
  if (master == Master::SplitRound)
    upper -= low < 0 ? 1 : 0;
  return std::bit_cast<float>(std::uint32_t(upper) << 16 |
                              static_cast<std::uint16_t>(low));
}

std::vector<float> binade::widen(const Tensor &tensor) {
  std::span<const std::uint16_t> bits = tensor.as<std::uint16_t>();
  std::vector<float> values(bits.size());
  std::transform(bits.begin(), bits.end(), values.begin(),
                 tensor.dtype == DType::BF16 ? bf16ToFloat : f16ToFloat);
  return values;
}

void binade::storeRounded(std::span<const float> values,
                          std::optional<Master> master,
                          const Tensor &parameter) {
  std::transform(
      values.begin(), values.end(), parameter.as<std::uint16_t>().begin(),
      [&](float value) { return encode(value, master, parameter.dtype); });
}

void binade::storeCompanion(std::span<const float> values, Master master,
                            const Tensor &companion) {
  switch (master) {
  case Master::F32:
    std::copy(values.begin(), values.end(), companion.as<float>().begin());
    return;
  case Master::SplitRound:
  case Master::SplitTrunc:
    std::transform(values.begin(), values.end(),
                   companion.as<std::int16_t>().begin(), getLowHalf);
    return;
  case Master::Split8Bit:
    std::transform(values.begin(), values.end(),
                   companion.as<std::int8_t>().begin(), encodeError);
    return;
  case Master::Kahan: // The compensation starts at 0.
    std::fill(companion.bytes.begin(), companion.bytes.end(), std::byte(0));
    return;
  case Master::Residual:
    std::transform(
        values.begin(), values.end(), companion.as<std::uint16_t>().begin(),
        [&](float value) { return encodeRest(value, companion.dtype); });
    return;
  }
}

std::vector<float> binade::join(const Tensor &parameter, Master master,
                                const Tensor &companion) {
  std::vector<float> values = widen(parameter);
  switch (master) {
  case Master::F32:
    std::copy_n(companion.as<float>().begin(), values.size(), values.begin());
    break;
  case Master::SplitRound:
  case Master::SplitTrunc:
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = decode(parameter.as<std::uint16_t>()[i],
                         companion.as<std::int16_t>()[i], master);
    break;
  case Master::Split8Bit:
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = addError(values[i], companion.as<std::int8_t>()[i]);
    break;
  case Master::Kahan: { // The compensation is parameter - value.
    std::vector<float> lost = widen(companion);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] -= lost[i];
    break;
  }
  case Master::Residual:
    std::ranges::transform(values, widen(companion), values.begin(),
                           std::plus<>());
    break;
  }
  return values;
}
