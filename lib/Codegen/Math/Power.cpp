//===- Power.cpp - rsqrt, powf --------------------------------------------===//
//
// utils/minimax.py computes the coefficients.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"

using namespace mlir;
using namespace mlir::binade;

// Adding this f64 rounds to an integer, which is then in the low bits of the
// sum, together with the exponent bias of f64.
static constexpr double kRoundToBiased = 0x1.8p52 + 1023;

FloatLanes mlir::binade::expandRsqrt(FloatLanes x) {
  return x.constant(1.0) / x.apply<math::SqrtOp>();
}

/// Returns log2(x) in f64 for x >= 0, with -Inf at 0.
static FloatLanes log2InF64(FloatLanes x) {
  auto [n32, f32] = splitLog(x);
  FloatLanes n = n32.resize(64), f = f32.resize(64);
  FloatLanes q = polynomial(
      f, {0x1.71547652bbe3dp+0, -0x1.7154764b331f2p-1, 0x1.ec709d900d7bep-2,
          -0x1.715484fb920a9p-2, 0x1.2776e228c8befp-2, -0x1.ec687b3ca1ce8p-3,
          0x1.a60b287414614p-3, -0x1.724a7c4a37f6fp-3, 0x1.49816134b882fp-3,
          -0x1.1984d9307e4c9p-3, 0x1.fa1c475d80f84p-4, -0x1.54304a7ca8ef9p-3,
          0x1.42a67714c3520p-3});
  FloatLanes y = fma(q, f, n);
  y = select(x == 0.0, -kInfinity, y);
  return select(x == kInfinity, kInfinity, y);
}

/// Returns 2^x of f64 as f32. The one rounding to f32 also overflows and
/// underflows.
static FloatLanes exp2FromF64(FloatLanes x) {
  FloatLanes bounded = atLeast(atMost(x, 200.0), -200.0);
  FloatLanes shifted = bounded + kRoundToBiased;
  FloatLanes r = bounded - (shifted - kRoundToBiased);
  FloatLanes q = polynomial(r, {0x1.62e42ff0e1a04p-1, 0x1.ebfbe0778b992p-3,
                                0x1.c6b08ac054a04p-5, 0x1.3b29f398bc914p-7,
                                0x1.5d8a860cd1a62p-10, 0x1.445c87fce1aa5p-13,
                                0x1.fde5f98d60838p-17});
  FloatLanes scale = floatFromBits(shifted.bits() << 52);
  return (fma(q, r, 1.0) * scale).resize(32);
}

FloatLanes mlir::binade::withSignsOfPow(FloatLanes x, FloatLanes y,
                                        FloatLanes z) {
  FloatLanes half = y * 0.5, whole = y.apply<math::FloorOp>();
  BoolLanes odd = (y == whole) & (half != half.apply<math::FloorOp>());
  z = select(odd, copySign(z, x), z);

  BoolLanes fractional = y != whole;
  BoolLanes negative = (x < 0.0) & (x > -kInfinity);
  z = select(negative & fractional, kNaN, z);
  z = select(x.isNaN() | y.isNaN(), x + y, z);
  return select((x == 1.0) | (y == 0.0), 1.0, z);
}

FloatLanes mlir::binade::expandPow(FloatLanes x, FloatLanes y) {
  FloatLanes magnitude = x.apply<math::AbsFOp>();
  // Beyond 2^40 every power of a base other than 1 is Inf or 0, and a finite
  // exponent keeps 1^Inf from being 0 * Inf.
  FloatLanes bounded = atLeast(atMost(y, 0x1p40), -0x1p40);
  FloatLanes z = exp2FromF64(log2InF64(magnitude) * bounded.resize(64));
  return withSignsOfPow(x, y, z);
}

std::optional<FloatLanes>
mlir::binade::expandPowConstant(FloatLanes x, const APFloat &exponent) {
  auto is = [&](double value) { return exponent.isExactlyValue(value); };
  if (is(1.0))
    return x;
  if (is(2.0))
    return x * x;
  if (is(3.0))
    return x * x * x;
  if (is(-1.0))
    return x.constant(1.0) / x;
  if (!is(0.5) && !is(-0.5))
    return std::nullopt;
  // Unlike the square root, the power of -0 is +0 and that of -Inf is Inf.
  FloatLanes root = (x + 0.0).apply<math::SqrtOp>();
  root = select(x == -kInfinity, kInfinity, root);
  return is(0.5) ? root : x.constant(1.0) / root;
}
