//===- Trigonometric.cpp - sin, cos, atan ---------------------------------===//
//
// The functions are computed in f64 and rounded once. An f32 may be a huge
// multiple of a turn, so that 1 / (2 pi) has 203 bits, in parts of 29 bits: the
// product of each part with the 24 bits of x is exact, and its whole turns are
// subtracted exactly. utils/minimax.py computes the coefficients.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr double kTurnParts[] = {
    0x1.45f306cp-3,   0x1.c9c882ap-31,  0x1.4fe13a8p-61, 0x1.f47d4d3p-88,
    0x1.dc0db62p-118, 0x1.2b32788p-147, 0x1.c820ff0p-177};

// Adding this f64 rounds to an integer, which is then in the low bits.
static constexpr double kRoundDouble = 0x1.8p52;

namespace {
/// x = 2 pi (quarter / 4 + r) modulo whole turns, |r| <= 1/8. Only the low two
/// bits of `quarter` matter.
struct Angle {
  FloatLanes r;
  IntLanes quarter;
};
} // namespace

static Angle reduce(FloatLanes x) {
  FloatLanes wide = x.resize(64);
  SmallVector<FloatLanes> parts;
  for (double part : kTurnParts) {
    FloatLanes turns = wide * part;
    parts.push_back(turns - turns.apply<math::RoundEvenOp>());
  }
  FloatLanes sum = parts[0];
  for (FloatLanes part : llvm::drop_begin(parts))
    sum = sum + part;
  FloatLanes shifted = fma(sum, 4.0, kRoundDouble);
  FloatLanes quarter = shifted - kRoundDouble;
  // After subtracting the quarter from the largest part, the parts cancel down
  // to r without a relevant rounding error.
  FloatLanes r = fma(quarter, -0.25, parts[0]);
  for (FloatLanes part : llvm::drop_begin(parts))
    r = r + part;
  return {r, shifted.bits()};
}

/// Returns sin(2 pi (quarter / 4 + r)).
static FloatLanes sinOfAngle(FloatLanes r, IntLanes quarter) {
  FloatLanes z = r * r;
  FloatLanes sin =
      r * polynomial(z, {0x1.921fb5443af62p+2, -0x1.4abbce564ce69p+5,
                         0x1.466bba8c00476p+6, -0x1.32ca854d6fabbp+6,
                         0x1.4bc2557b352d1p+5});
  FloatLanes cos = polynomial(z, {0x1.ffffffff84b4ep-1, -0x1.3bd3cc6e7c752p+4,
                                  0x1.03c1daacd9617p+6, -0x1.55c4e9b0bb30ap+6,
                                  0x1.d99f4ecd6b9cbp+5});
  BoolLanes odd =
      (quarter & 1).compare(arith::CmpIPredicate::ne, quarter.constant(0));
  IntLanes value = select(odd, cos, sin).bits();
  // The second half of the turn is the first one negated.
  IntLanes flipped = value + ((quarter & 2) << 62);
  return floatFromBits(flipped).resize(32);
}

FloatLanes mlir::binade::expandSin(FloatLanes x) {
  Angle angle = reduce(x);
  return select(x == 0.0, x, sinOfAngle(angle.r, angle.quarter));
}

FloatLanes mlir::binade::expandCos(FloatLanes x) {
  Angle angle = reduce(x);
  return sinOfAngle(angle.r, angle.quarter + 1);
}

FloatLanes mlir::binade::expandAtan(FloatLanes x) {
  FloatLanes a = x.resize(64).apply<math::AbsFOp>();
  // atan(a) = pi / 2 - atan(1 / a).
  BoolLanes isSteep = a > 1.0;
  FloatLanes t = select(isSteep, a.constant(1.0) / a, a);
  FloatLanes angle =
      t * polynomial(t * t, {0x1.ffffffff7ece9p-1, -0x1.555554269f529p-2,
                             0x1.9999238fb1b3fp-3, -0x1.2489327dd0658p-3,
                             0x1.c661116e00f3ap-4, -0x1.6fd4a4919b70bp-4,
                             0x1.28c8e447d75abp-4, -0x1.bca7a2512c4bep-5,
                             0x1.183ed9a1fc925p-5, -0x1.07f96b666c848p-6,
                             0x1.3de95b7145a08p-8, -0x1.670788379938cp-11});
  FloatLanes rest = angle.constant(0x1.921fb54442d18p+0) - angle;
  return copySign(select(isSteep, rest, angle).resize(32), x);
}
