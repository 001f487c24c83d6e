//===- Storage.cpp - Parameters stored in 16 bits -------------------------===//

#include "Storage.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Returns the f32 with upper half `high` and lower half `low`.
static float joinHalves(uint16_t high, uint16_t low) {
  return llvm::bit_cast<float>(uint32_t(high) << 16 | low);
}

static uint16_t getHigh(float x) { return llvm::bit_cast<uint32_t>(x) >> 16; }
static uint16_t getLow(float x) { return llvm::bit_cast<uint32_t>(x); }

/// The largest code of a rounding error.
static constexpr double kMaxCode = 127;

/// Returns half the distance between bf16 values at `p`, a finite bf16.
static double getHalfUnit(double p) {
  constexpr int kMinExponent = -126, kPrecision = 8;
  int exponent = p == 0.0 ? kMinExponent : std::ilogb(p);
  return std::ldexp(1.0, std::max(exponent, kMinExponent) - kPrecision);
}

static int64_t encodeError(float value, double rounded) {
  if (!std::isfinite(rounded))
    return 0;
  double error = (value - rounded) / getHalfUnit(rounded);
  return static_cast<int64_t>(std::round(error * kMaxCode));
}

/// Adds the error with this code.
static float decodeError(float p, int64_t code) {
  if (!std::isfinite(p))
    return p;
  double error = static_cast<double>(code) / kMaxCode * getHalfUnit(p);
  return static_cast<float>(p + error);
}

float StoredParameter::decode(const Tensor &parameter, const Tensor *companion,
                              int64_t index) const {
  auto p = static_cast<float>(parameter[index]);
  switch (master) {
  case Master::F32:
    return static_cast<float>((*companion)[index]);
  case Master::SplitRound: {
    auto low = static_cast<int16_t>(companion->getIntegers()[index]);
    return joinHalves(getHigh(p) - (low < 0 ? 1 : 0), low);
  }
  case Master::SplitTrunc:
    return joinHalves(getHigh(p), companion->getIntegers()[index]);
  case Master::Split8Bit:
    return decodeError(p, static_cast<int8_t>(companion->getIntegers()[index]));
  default:
    return p;
  }
}

void StoredParameter::start(float value, int64_t index, Tensor *parameter,
                            Tensor *companion) const {
  auto low = static_cast<int16_t>(getLow(value));
  double rounded = format.round(value);
  if (master == Master::SplitTrunc)
    rounded = joinHalves(getHigh(value), 0);
  if (master == Master::SplitRound)
    rounded = joinHalves(getHigh(value) + (low < 0 ? 1 : 0), 0);
  if (parameter)
    (*parameter)[index] = rounded;
  if (!companion)
    return;
  if (master == Master::Split8Bit)
    companion->getIntegers()[index] = encodeError(value, rounded);
  else if (!companion->isFloat())
    companion->getIntegers()[index] = low;
  else if (master == Master::Residual)
    (*companion)[index] =
        std::isfinite(rounded) ? format.round(value - rounded) : 0.0;
  else
    (*companion)[index] = master == Master::F32 ? value : 0.0;
}

void StoredParameter::update(float value, const Tensor &old,
                             const Tensor *oldCompanion, float random,
                             int64_t index, Tensor &parameter,
                             Tensor *companion) const {
  if (master == Master::Stochastic) {
    parameter[index] = format.roundRandomly(value, random);
    return;
  }
  if (master != Master::Kahan && master != Master::Residual)
    return start(value, index, &parameter, companion);
  auto round = [&](float x) { return static_cast<float>(format.round(x)); };
  auto w = static_cast<float>(old[index]);
  auto c = static_cast<float>((*oldCompanion)[index]);
  if (master == Master::Residual) {
    float change = round(value - w), sum = round(w + change);
    float lost = round(change - round(sum - w)), rest = round(c + lost);
    float whole = round(sum + rest);
    parameter[index] = whole;
    (*companion)[index] = round(rest - round(whole - sum));
    return;
  }
  float change = value - w;
  float y = round(change - c);
  float t = round(w + y);
  float gained = round(t - w);
  parameter[index] = t;
  (*companion)[index] = round(gained - y);
}
