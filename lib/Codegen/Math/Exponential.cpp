//===- Exponential.cpp - exp, exp2, expm1 ---------------------------------===//
//
// utils/minimax.py computes the coefficients.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"

using namespace mlir;
using namespace mlir::binade;

// Adding 1.5 * 2^23 rounds a small f32 to an integer, which is then in the low
// bits of the sum. Adding the exponent bias at the same time saves an addition.
static constexpr double kRound = 0x1.8p23;

// ln 2 in two parts; n times the first is exact for |n| < 2^9.
static constexpr double kLn2High = 0x1.62e400p-1;
static constexpr double kLn2Low = 0x1.7f7d1cp-20;

namespace {
/// x = n ln 2 + r, |r| <= ln 2 / 2. The low bits of `shifted` are n + bias.
struct ReducedArgument {
  FloatLanes n;
  FloatLanes r;
  IntLanes shifted;
};
} // namespace

static ReducedArgument reduce(FloatLanes x, int bias) {
  FloatLanes shifted = fma(x.constant(kLog2E), x, kRound + bias);
  FloatLanes n = shifted - (kRound + bias);
  FloatLanes r = fma(n, -kLn2High, x);
  return {n, fma(n, -kLn2Low, r), shifted.bits()};
}

/// Returns 2^k, where the low 8 bits of `biased` are k + 127 and the ninth bit
/// is zero.
static FloatLanes powerOfTwo(IntLanes biased) {
  return floatFromBits(biased << 23);
}

/// Returns fraction * 2^n in two steps, so that a subnormal result is rounded
/// only once. `shifted` is n + 254.
static FloatLanes scaleInTwoSteps(FloatLanes fraction, IntLanes shifted) {
  IntLanes half = shifted >> 1;
  return fraction * powerOfTwo(half) * powerOfTwo(shifted - half);
}

//===----------------------------------------------------------------------===//
// For results of 16 bits
//===----------------------------------------------------------------------===//

// 2^r for |r| <= 1/2.
static constexpr double kExp2ForBF16[] = {1.0, 0x1.62f5fcp-1, 0x1.f00c5ap-3,
                                          0x1.c2a1aep-5};
static constexpr double kExp2ForF16[] = {1.0, 0x1.62e12cp-1, 0x1.ec0372p-3,
                                         0x1.c9fc7ep-5, 0x1.3a0456p-7};
static const NarrowCoefficients kNarrowExp2 = {kExp2ForBF16, kExp2ForF16};

namespace {
/// An exponent n + r, |r| <= 1/2. The low bits of `shifted` are n + bias.
struct ReducedExponent {
  FloatLanes r, shifted;
};
} // namespace

/// Reduces x log2(e), whose rounding error of less than 2^-18 does not matter.
static ReducedExponent reduceNarrow(FloatLanes x, int bias) {
  FloatLanes shifted = fma(x, kLog2E, kRound + bias);
  return {fma(x, kLog2E, -(shifted - (kRound + bias))), shifted};
}

// Scales by 2^(n + 64) and 2^-64, so that only the last multiplication rounds a
// subnormal result.
static constexpr int kDecayBias = 127 + 64;

/// Returns 2^(n + r) for -151 <= n <= 0.
static FloatLanes computeDecay(ReducedExponent exponent, FloatType accuracy) {
  SmallVector<double> coefficients;
  for (double c : chooseFor(accuracy, kNarrowExp2))
    coefficients.push_back(c * 0x1p-64);
  return polynomial(exponent.r, coefficients) *
         powerOfTwo(exponent.shifted.bits());
}

FloatLanes mlir::binade::expandNarrowExp2(FloatLanes x, FloatType accuracy) {
  FloatLanes shifted = x + (kRound + kDecayBias);
  return computeDecay({x - (shifted - (kRound + kDecayBias)), shifted},
                      accuracy);
}

/// Returns e^x for x <= 0.
static FloatLanes expandNarrowDecay(FloatLanes x, FloatType accuracy) {
  return computeDecay(reduceNarrow(atLeast(x, -104.0), kDecayBias), accuracy);
}

//===----------------------------------------------------------------------===//
// For any results
//===----------------------------------------------------------------------===//

ScaledExp mlir::binade::splitExp(FloatLanes x, int bias, FloatType accuracy) {
  if (accuracy) {
    auto [r, shifted] = reduceNarrow(x, bias);
    return {polynomial(r, chooseFor(accuracy, kNarrowExp2)), shifted.bits()};
  }
  ReducedArgument reduced = reduce(x, bias);
  FloatLanes r = reduced.r;
  FloatLanes q = polynomial(r, {0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558acp-5,
                                0x1.123982p-7, 0x1.6a51bap-10});
  return {fma(fma(q, r, 1.0), r, 1.0), reduced.shifted};
}

bool mlir::binade::isNeverNegative(Value x) {
  APFloat constant(0.0f);
  if (matchPattern(x, m_ConstantFloat(&constant)))
    return !constant.isNegative();
  auto product = x.getDefiningOp<arith::MulFOp>();
  if (!product)
    return bool(x.getDefiningOp<math::AbsFOp>());
  Value lhs = product.getLhs(), rhs = product.getRhs();
  return lhs == rhs || (isNeverNegative(lhs) && isNeverNegative(rhs));
}

/// Whether `x` is never positive, as the ops show that compute it: -|y|, or a
/// square times a negative constant.
static bool isNeverPositive(Value x) {
  if (auto negated = x.getDefiningOp<arith::NegFOp>())
    return isNeverNegative(negated.getOperand());
  auto product = x.getDefiningOp<arith::MulFOp>();
  if (!product)
    return false;
  auto isProductOf = [](Value factor, Value square) {
    APFloat constant(0.0f);
    return matchPattern(factor, m_ConstantFloat(&constant)) &&
           constant.isNegative() && isNeverNegative(square);
  };
  return isProductOf(product.getLhs(), product.getRhs()) ||
         isProductOf(product.getRhs(), product.getLhs());
}

FloatLanes mlir::binade::expandExp(FloatLanes x, FloatType accuracy) {
  if (isNeverPositive(x.value) && accuracy)
    return expandNarrowDecay(x, accuracy);
  if (isNeverPositive(x.value)) {
    // Only the last multiplication rounds a subnormal result.
    ScaledExp exp = splitExp(atLeast(x, -104.0), 127 + 64);
    return exp.fraction * powerOfTwo(exp.shifted) * 0x1p-64;
  }
  // Beyond these bounds the result is Inf or 0.
  FloatLanes bounded = atLeast(atMost(x, 89.0), -104.0);
  ScaledExp exp = splitExp(bounded, 254, accuracy);
  return scaleInTwoSteps(exp.fraction, exp.shifted);
}

FloatLanes mlir::binade::expandExp2(FloatLanes x) {
  FloatLanes bounded = atLeast(atMost(x, 129.0), -151.0);
  FloatLanes shifted = bounded + (kRound + 254);
  FloatLanes r = bounded - (shifted - (kRound + 254));
  FloatLanes q = polynomial(r, {0x1.62e430p-1, 0x1.ebfbdcp-3, 0x1.c6af7cp-5,
                                0x1.3b2de0p-7, 0x1.5f0830p-10, 0x1.416b5ap-13});
  return scaleInTwoSteps(fma(q, r, 1.0), shifted.bits());
}

FloatLanes mlir::binade::expandExpm1(FloatLanes x) {
  FloatLanes bounded = atLeast(atMost(x, 89.0), -26.0);
  ReducedArgument reduced = reduce(bounded, 126);
  FloatLanes r = reduced.r;
  FloatLanes q = polynomial(r, {0x1.0p-1, 0x1.555554p-3, 0x1.5554f8p-5,
                                0x1.1112dcp-7, 0x1.6d3a2ep-10, 0x1.9e6af6p-13});
  FloatLanes p = fma(q * r, r, r);
  // Computes 2^n p + (2^n - 1) from halves, because 2^n overflows at n = 128.
  FloatLanes scale = powerOfTwo(reduced.shifted);
  FloatLanes y = fma(p, scale, scale - 0.5);
  // Halving a subnormal would round it, and -0 would lose its sign.
  FloatLanes magnitude = x.apply<math::AbsFOp>();
  return select(magnitude < 0x1p-24, x, y + y);
}
