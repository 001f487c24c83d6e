//===- RandomRounding.cpp - Stochastic rounding ---------------------------===//

#include "RandomRounding.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

static constexpr int kFloatMinExponent = -126;

/// Rounds the magnitudes that are normal in the format: all have the same
/// number of bits to cut off.
static IntLanes roundNormal(IntLanes magnitude, unsigned cut,
                            FloatLanes random) {
  uint64_t mask = (uint64_t(1) << cut) - 1;
  IntLanes low = magnitude & mask;
  FloatLanes way = toFloat(low) * std::ldexp(1.0, -int(cut));
  IntLanes kept = magnitude - low;
  return select(random < way, kept + (mask + 1), kept);
}

/// Rounds the other magnitudes to multiples of `step`.
static FloatLanes roundSubnormal(FloatLanes magnitude, double step,
                                 FloatLanes random) {
  FloatLanes steps = magnitude * (1.0 / step);
  FloatLanes whole = steps.apply<math::FloorOp>();
  FloatLanes more = select(random < steps - whole, whole + 1.0, whole);
  return more * step;
}

FloatLanes mlir::binade::roundRandomly(FloatLanes x, FloatType format,
                                       FloatLanes random) {
  const llvm::fltSemantics &semantics = format.getFloatSemantics();
  int minExponent = APFloat::semanticsMinExponent(semantics);
  unsigned fraction = APFloat::semanticsPrecision(semantics) - 1;
  IntLanes magnitude = x.bits() & 0x7fffffff;
  FloatLanes rounded =
      floatFromBits(roundNormal(magnitude, kFractionBits - fraction, random));
  if (minExponent > kFloatMinExponent) {
    double step = std::ldexp(1.0, minExponent - int(fraction));
    FloatLanes number = floatFromBits(magnitude);
    rounded = select(number < std::ldexp(1.0, minExponent),
                     roundSubnormal(number, step, random), rounded);
  }
  return select(x.isNaN(), x, copySign(rounded, x));
}
