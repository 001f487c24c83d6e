//===- RangeExpansion.cpp - Range expansion of groups ---------------------===//
//
// lib/Reference/RangeExpansion.cpp does the same operations on scalars.
//
//===----------------------------------------------------------------------===//

#include "RangeExpansion.h"
#include "binade/IR/RangeExpansion.h"
#include <limits>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::expansion;

static constexpr uint64_t kFractionMask = 0x007fffff,
                          kExponentMask = 0x7f800000, kExponentField = 0xff,
                          kOne = 0x3f800000;
/// The exponent bias of f32; 2^23, to which a small integer can be added as
/// bits; and 1.5 * 2^23, whose addition rounds to an integer.
static constexpr double kBias = 127, kCount = 0x1p23, kRound = 0x1.8p23;
namespace {
/// log2(x) = whole + fraction, for a normal x > 0. The whole part is exact, and
/// so is the difference of two, so that ratios close to 1 need no division.
struct Log2 {
  FloatLanes whole, fraction;
};
} // namespace

/// Returns log2(|x|) - less.
static Log2 splitLog2(FloatLanes x, FloatOperand less,
                      ArrayRef<double> coefficients) {
  IntLanes bits = x.bits();
  // 2^23 + the exponent, as f32.
  FloatLanes counted = floatFromBits(
      ((bits >> kFractionBits) & kExponentField) | uint64_t(0x4b000000));
  FloatLanes whole = counted - (kCount + kBias);
  FloatLanes m = floatFromBits((bits & kFractionMask) | kOne);
  FloatLanes d = m - 1.5;
  FloatLanes q = polynomial(d, coefficients);
  FloatLanes middle = x.constant(kLog2OfMiddle) - less.like(x);
  return {whole, fma(q, d, middle)};
}

/// Returns 2^x for x < 128, and 0 below 2^-126.
static FloatLanes raiseTwo(FloatLanes x, ArrayRef<double> coefficients) {
  FloatLanes bounded = atLeast(x, kMinExponent);
  FloatLanes shifted = bounded + (kRound + kBias);
  FloatLanes r = bounded - (shifted - (kRound + kBias));
  FloatLanes q = polynomial(r, coefficients);
  return fma(q, r, 1.0) * floatFromBits(shifted.bits() << kFractionBits);
}

/// Returns log2(x) of a normal x > 0; NaN if x is not finite.
static FloatLanes findLog2(FloatLanes x) {
  Log2 log = splitLog2(x, 0.0, kLog2);
  return fma(x, 0.0, log.whole + log.fraction);
}

FloatLanes mlir::binade::findLogarithm(FloatLanes magnitude) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Log2 log = splitLog2(magnitude, 0.0, kLog2);
  FloatLanes y =
      select(magnitude < kInfinity, log.whole + log.fraction, magnitude);
  return select(magnitude == 0.0, -kInfinity, y);
}

namespace {
/// A scale with which the centre is in [1, 2), and log2 of the scaled centre.
struct Centre {
  Centre(FloatLanes unit, FloatLanes log) : unit(unit), log(log) {}
  explicit Centre(FloatLanes centre)
      : unit(findUnit(centre)), log(findLog2(centre * unit)) {}

  /// Returns log2(|x| / centre).
  FloatLanes compare(FloatLanes x, ArrayRef<double> coefficients) const {
    Log2 ratio = splitLog2(x * unit, log, coefficients);
    return ratio.whole + ratio.fraction;
  }
  static FloatLanes findUnit(FloatLanes centre) {
    IntLanes exponent = centre.bits() & kExponentMask;
    constexpr uint64_t kMax = uint64_t(253) << kFractionBits;
    exponent = exponent.with<arith::MinUIOp>(exponent.constant(kMax));
    constexpr uint64_t kTurn = uint64_t(254) << kFractionBits;
    return floatFromBits(exponent.constant(kTurn) - exponent);
  }
  FloatLanes unit, log;
};
} // namespace

LaneCodec::Shared
mlir::binade::prepareExpansion(const LaneCodec::Factors &factors) {
  Centre centre(*factors.centre);
  return {centre.unit, centre.log, *factors.power, -findLog2(factors.factor)};
}

FloatLanes mlir::binade::expandRange(FloatLanes x,
                                     ArrayRef<FloatLanes> shared) {
  Centre centre(shared[0], shared[1]);
  // No magnitude exceeds the one from which scale and power were computed.
  FloatLanes exponent =
      fma(centre.compare(x, kShortLog2), shared[2], shared[3]);
  return copySign(raiseTwo(exponent, kShortPower), x);
}

FloatLanes mlir::binade::expandLargest(FloatLanes amax, FloatLanes power,
                                       FloatLanes centre) {
  FloatLanes exponent = Centre(centre).compare(amax, kLog2) * power;
  return fma(amax, 0.0, raiseTwo(exponent, kPower));
}

LaneCodec::Shared
mlir::binade::prepareContraction(const LaneCodec::Factors &factors) {
  FloatLanes inverse = factors.power->constant(1.0) / *factors.power;
  return {findLog2(factors.scale) * inverse, inverse, *factors.centre};
}

FloatLanes mlir::binade::contractRange(FloatLanes logarithm, FloatLanes sign,
                                       ArrayRef<FloatLanes> shared) {
  FloatLanes scale = shared[0], inverse = shared[1], centre = shared[2];
  FloatLanes exponent = atMost(fma(logarithm, inverse, scale), kMaxExponent);
  return copySign(raiseTwo(exponent, kShortPower) * centre, sign);
}
