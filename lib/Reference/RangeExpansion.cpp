//===- RangeExpansion.cpp - Range expansion of groups ---------------------===//

#include "RangeExpansion.h"
#include "binade/IR/RangeExpansion.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/bit.h"
#include <algorithm>
#include <cmath>
#include <cstdint>

using namespace mlir::binade;
using namespace mlir::binade::expansion;
using llvm::ArrayRef;

static constexpr unsigned kFraction = 23;
static constexpr uint32_t kFractionMask = 0x007fffff,
                          kExponentMask = 0x7f800000, kOne = 0x3f800000;
static constexpr float kBias = 127.0f;
/// 1.5 * 2^23 plus the bias: adding it rounds a number to an integer, whose low
/// bits are the exponent field.
static constexpr float kRound = 0x1.8p23f + kBias;

static uint32_t bitsOf(float x) { return llvm::bit_cast<uint32_t>(x); }
static float fromBits(uint32_t bits) { return llvm::bit_cast<float>(bits); }

static float polynomial(float x, ArrayRef<double> coefficients) {
  auto sum = static_cast<float>(coefficients.back());
  for (double c : llvm::reverse(coefficients.drop_back()))
    sum = std::fma(sum, x, static_cast<float>(c));
  return sum;
}

/// Returns log2(x) - less.
static float subtractLog2(float x, float less, ArrayRef<double> coefficients) {
  uint32_t bits = bitsOf(x);
  float whole = static_cast<float>(bits >> kFraction) - kBias;
  float d = fromBits((bits & kFractionMask) | kOne) - 1.5f;
  float middle = static_cast<float>(kLog2OfMiddle) - less;
  return whole + std::fma(polynomial(d, coefficients), d, middle);
}

/// Returns log2(x), or NaN if x is not finite.
static float findLog2(float x) {
  return std::fma(x, 0.0f, subtractLog2(x, 0.0f, kLog2));
}

float mlir::binade::findLogarithm(float magnitude) {
  if (magnitude == 0.0f)
    return -INFINITY;
  return magnitude < INFINITY ? subtractLog2(magnitude, 0.0f, kLog2)
                              : magnitude;
}

static float raiseTwo(float x, ArrayRef<double> coefficients) {
  float bounded = x < kMinExponent ? static_cast<float>(kMinExponent) : x;
  float shifted = bounded + kRound;
  float r = bounded - (shifted - kRound);
  return std::fma(polynomial(r, coefficients), r, 1.0f) *
         fromBits(bitsOf(shifted) << kFraction);
}

/// Returns a power of two that scales the centre to [1, 2).
static float findUnit(float centre) {
  constexpr uint32_t kMax = 253u << kFraction, kTurn = 254u << kFraction;
  return fromBits(kTurn - std::min(bitsOf(centre) & kExponentMask, kMax));
}

/// Returns log2(|x| / centre).
static float compare(float x, float centre, ArrayRef<double> coefficients) {
  float unit = findUnit(centre);
  return subtractLog2(std::fabs(x) * unit, findLog2(centre * unit),
                      coefficients);
}

Expansion Expansion::choose(float amax, float least, float bound) {
  Expansion chosen;
  if (amax == 0.0f)
    return chosen;
  chosen.centre = std::sqrt(amax) * std::sqrt(least);
  // The ratio may exceed the range of f32.
  bool isWide = amax * 0x1p-100f > least;
  float ratio = isWide ? amax * 0x1p-64f / (least * 0x1p100f) : amax / least;
  if (!isWide && ratio <= static_cast<float>(kConstantRatio))
    return chosen;
  float range = findLogarithm(ratio) + (isWide ? 164.0f : 0.0f);
  constexpr auto kSteps = static_cast<float>(expansion::kSteps);
  float steps = std::floor(std::log2(bound) / range * kSteps);
  chosen.power = std::max(steps, 1.0f) / kSteps;
  return chosen;
}

float Expansion::expandLargest(float amax) const {
  if (amax == 0.0f)
    return amax;
  float exponent = compare(amax, centre, kLog2) * power;
  return std::fma(amax, 0.0f, raiseTwo(exponent, kPower));
}

float Expansion::expand(float x, float scale) const {
  float exponent =
      std::fma(compare(x, centre, kShortLog2), power, -findLog2(scale));
  return std::copysign(raiseTwo(exponent, kShortPower), x);
}

float Expansion::contract(float logarithm, float sign, float scale) const {
  float inverse = 1.0f / power;
  float exponent = std::fma(logarithm, inverse, findLog2(scale) * inverse);
  if (exponent > kMaxExponent)
    exponent = kMaxExponent;
  return std::copysign(raiseTwo(exponent, kShortPower) * centre, sign);
}
