//===- Scalar.cpp - exp, log and pow of f64 -------------------------------===//
//
// The functions that an optimizer computes once per step, with errors of at
// most 0.501 ulp and the same bits on all targets. Speed does not matter, so
// that they use power series instead of tables.
//
//===----------------------------------------------------------------------===//

#include "DoubleFloat.h"
#include "Expansions.h"

using namespace mlir;
using namespace mlir::binade;

// ln 2 in two parts: multiples of the first by integers up to 2^11 are exact.
static constexpr double kDoubleLn2 = 0x1.62e42fefa38p-1;
static constexpr double kDoubleLn2Low = 0x1.ef35793c7673p-45;
static constexpr double kDoubleLog2E = 0x1.71547652b82fep+0;

/// Returns log x for finite x > 0.
static DoubleFloat log(FloatLanes x) {
  BoolLanes isSubnormal = x < 0x1p-1022;
  IntLanes bits = select(isSubnormal, x * 0x1p54, x).bits();
  // x = 2^n m with m in [sqrt(1/2), sqrt(2)].
  constexpr uint64_t kRootOfHalf = 0x3fe6a09e667f3bcd;
  IntLanes exponent = (bits - kRootOfHalf).shiftSigned(52);
  FloatLanes m = floatFromBits(bits - (exponent << 52));
  FloatLanes n = toFloat(exponent);
  n = select(isSubnormal, n - 54.0, n);

  // log m = 2 s (1 + s^2 / 3 + s^4 / 5 + ...), s = (m - 1) / (m + 1).
  DoubleFloat s =
      DoubleFloat{m - 1.0, m.constant(0.0)} / addExactly(m, m.constant(1.0));
  DoubleFloat z = s * s;
  FloatLanes tail = polynomial(
      z.high, {1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17,
               1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25, 1.0 / 27, 1.0 / 29});
  DoubleFloat sum{tail, m.constant(0.0)};
  sum = DoubleFloat::constant(m, 0x1.999999999999ap-3, -0x1.999999999999ap-57) +
        z * sum;
  sum = DoubleFloat::constant(m, 0x1.5555555555555p-2, 0x1.5555555555555p-56) +
        z * sum;
  sum = DoubleFloat::constant(m, 1.0) + z * sum;
  DoubleFloat logM = s * sum;
  logM = {logM.high * 2.0, logM.low * 2.0};
  return addSmaller(n * kDoubleLn2, n * kDoubleLn2Low) + logM;
}

/// Returns e^x, with Inf and 0 beyond the range of f64. x must not be NaN.
static FloatLanes exp(DoubleFloat x) {
  FloatLanes whole = atLeast(atMost(x.high, 720.0), -760.0);
  FloatLanes rest = select(whole == x.high, x.low, x.low.constant(0.0));
  constexpr double kRound = 0x1.8p52;
  FloatLanes shifted = fma(whole, kDoubleLog2E, kRound);
  FloatLanes n = shifted - kRound;
  // |r| is at most ln 2 / 2.
  DoubleFloat r =
      addExactly(fma(n, -kDoubleLn2, whole), fma(n, -kDoubleLn2Low, rest));

  FloatLanes tail = polynomial(
      r.high,
      {0x1.6c16c16c16c17p-10, 0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-16,
       0x1.71de3a556c734p-19, 0x1.27e4fb7789f5cp-22, 0x1.ae64567f544e4p-26,
       0x1.1eed8eff8d898p-29, 0x1.6124613a86d09p-33, 0x1.93974a8c07c9dp-37,
       0x1.ae7f3e733b81fp-41, 0x1.ae7f3e733b81fp-45, 0x1.952c77030ad4ap-49});
  DoubleFloat sum{tail, tail.constant(0.0)};
  static constexpr std::pair<double, double> kReciprocals[] = {
      {0x1.1111111111111p-7, 0x1.1111111111111p-63},
      {0x1.5555555555555p-5, 0x1.5555555555555p-59},
      {0x1.5555555555555p-3, 0x1.5555555555555p-57},
      {0.5, 0.0},
      {1.0, 0.0},
      {1.0, 0.0}};
  for (auto [high, low] : kReciprocals)
    sum = DoubleFloat::constant(tail, high, low) + r * sum;

  // In two steps, because 2^n itself may overflow or underflow.
  IntLanes exponent = shifted.bits() - llvm::bit_cast<uint64_t>(kRound);
  IntLanes half = exponent.shiftSigned(1);
  auto power = [](IntLanes k) { return floatFromBits((k + 1023) << 52); };
  return sum.high * power(half) * power(exponent - half);
}

FloatLanes mlir::binade::expandScalarExp(FloatLanes x) {
  FloatLanes y = exp({x, x.constant(0.0)});
  return select(x.isNaN(), x, y);
}

FloatLanes mlir::binade::expandScalarLog(FloatLanes x) {
  FloatLanes y = log(x).high;
  y = select(x < kInfinity, y, x); // Infinity and NaN do not change.
  y = select(x == 0.0, -kInfinity, y);
  return select(x < 0.0, kNaN, y);
}

FloatLanes mlir::binade::expandScalarPow(FloatLanes x, FloatLanes y) {
  FloatLanes magnitude = x.apply<math::AbsFOp>();
  // Beyond 2^65 every power of a base other than 1 is Inf or 0.
  FloatLanes bounded = atLeast(atMost(y, 0x1p65), -0x1p65);
  DoubleFloat logarithm = log(magnitude);
  DoubleFloat product = multiplyExactly(logarithm.high, bounded);
  FloatLanes z =
      exp(addSmaller(product.high, fma(logarithm.low, bounded, product.low)));
  FloatLanes nothing = z.constant(0.0);
  FloatLanes ofZero = select(y > 0.0, nothing, z.constant(kInfinity));
  z = select(magnitude == 0.0, ofZero, z);
  FloatLanes ofInf = select(y > 0.0, z.constant(kInfinity), nothing);
  z = select(magnitude == kInfinity, ofInf, z);
  return withSignsOfPow(x, y, z);
}
