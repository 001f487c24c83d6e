//===- RangeExpansion.cpp - powers that stretch groups --------------------===//
//
// Coefficients: utils/minimax.py.
//
//===----------------------------------------------------------------------===//

#include "RangeExpansion.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr unsigned kFraction = 23;
static constexpr uint64_t kFractionMask = 0x007fffff,
                          kExponentMask = 0x7f800000, kOne = 0x3f800000,
                          kSign = 0x80000000;
/// Of f32; 2^23, whose low bits hold what is added to them; and 1.5 * 2^23,
/// which rounds to an integer what is added to it.
static constexpr double kBias = 127, kCount = 0x1p23, kRound = 0x1.8p23;
static constexpr double kLog2OfMiddle = 0x1.2b8034p-1;

/// Of the fraction of a logarithm, and of a power. A group's scale is found
/// with all digits; elements, of which codes keep four bits, with two fewer.
static constexpr double kLog2[] = {
    0x1.ec7088p-1, -0x1.484abp-2,  0x1.23e3dap-3, -0x1.2403c4p-4,
    0x1.330276p-5, -0x1.51b32ap-6, 0x1.e34ed2p-7, -0x1.2821aep-7};
static constexpr double kShortLog2[] = {
    0x1.ec707ep-1, -0x1.48517ep-2, 0x1.23eaep-3, -0x1.216fap-4,
    0x1.3205eep-5, -0x1.98d574p-6, 0x1.ece0eep-7};
static constexpr double kPower[] = {0x1.62e42ap-1, 0x1.ebf9c2p-3, 0x1.c6b6dap-5,
                                    0x1.3ce8b4p-7, 0x1.5bd96p-10};
static constexpr double kShortPower[] = {0x1.62e12cp-1, 0x1.ec0372p-3,
                                         0x1.c9fc7ep-5, 0x1.3a0456p-7};

namespace {
/// log2(x) = whole + fraction, of a normal x > 0. The whole part is exact, and
/// so is the difference of two: what is close to 1 after a division needs none.
struct Log2 {
  FloatLanes whole, fraction;
};
} // namespace

/// The logarithm without `less`, which is that of something else.
static Log2 splitLog2(FloatLanes x, FloatOperand less,
                      ArrayRef<double> coefficients) {
  IntLanes bits = x.bits();
  // 2^23 + the exponent, as a number.
  FloatLanes counted =
      floatFromBits((bits >> kFraction) | uint64_t(0x4b000000));
  FloatLanes whole = counted - (kCount + kBias);
  FloatLanes m = floatFromBits((bits & kFractionMask) | kOne);
  FloatLanes d = m - 1.5;
  FloatLanes q = polynomial(d, coefficients);
  FloatLanes middle = x.constant(kLog2OfMiddle) - less.like(x);
  return {whole, fma(q, d, middle)};
}

/// 2^x for x < 128, 0 below 2^-126.
static FloatLanes raiseTwo(FloatLanes x, ArrayRef<double> coefficients) {
  FloatLanes bounded = atLeast(x, -127.0);
  FloatLanes shifted = bounded + (kRound + kBias);
  FloatLanes r = bounded - (shifted - (kRound + kBias));
  FloatLanes q = polynomial(r, coefficients);
  return fma(q, r, 1.0) * floatFromBits(shifted.bits() << kFraction);
}

/// log2(x) of a normal x > 0; what is no number stays none.
static FloatLanes findLog2(FloatLanes x) {
  Log2 log = splitLog2(x, 0.0, kLog2);
  return fma(x, 0.0, log.whole + log.fraction);
}

namespace {
/// A unit in which the centre is one to two, and its logarithm there.
struct Centre {
  Centre(FloatLanes unit, FloatLanes log) : unit(unit), log(log) {}
  explicit Centre(FloatLanes centre)
      : unit(findUnit(centre)), log(findLog2(centre * unit)) {}

  /// log2(|x| / centre).
  FloatLanes compare(FloatLanes x, ArrayRef<double> coefficients) const {
    Log2 ratio = splitLog2(x.apply<math::AbsFOp>() * unit, log, coefficients);
    return ratio.whole + ratio.fraction;
  }
  static FloatLanes findUnit(FloatLanes centre) {
    IntLanes exponent = centre.bits() & kExponentMask;
    constexpr uint64_t kMost = uint64_t(253) << kFraction;
    exponent = exponent.with<arith::MinUIOp>(exponent.constant(kMost));
    constexpr uint64_t kTurn = uint64_t(254) << kFraction;
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
  // No magnitude is beyond the one from which scale and power follow.
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
  FloatLanes exponent = atMost(fma(logarithm, inverse, scale), 127.5);
  return copySign(raiseTwo(exponent, kShortPower) * centre, sign);
}
