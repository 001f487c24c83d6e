//===- Companding.cpp - Integers spaced by a function ---------------------===//

#include "Companding.h"

using namespace mlir;
using namespace mlir::binade;

/// Limits to [-1, 1], or to [0, 1]; NaN becomes 0.
static FloatLanes limit(FloatLanes x, bool isSigned) {
  if (isSigned)
    return atLeast(atMost(select(x.isNaN(), 0.0, x), 1.0), -1.0);
  return atMost(select(x > 0.0, x, x.constant(0.0)), 1.0);
}

IntLanes mlir::binade::encodeCompanded(FloatLanes x, CompandedAttr format) {
  ImplicitLocOpBuilder &b = *x.builder;
  FloatLanes y = limit(x, format.isSigned());
  if (format.hasSoftsign()) {
    FloatLanes magnitude = format.isSigned() ? y.apply<math::AbsFOp>() : y;
    y = (y * 2.0) / (magnitude + 1.0);
  }
  FloatLanes above = y * static_cast<double>(format.getLargestCode()) + 0.5;
  if (format.isSigned())
    above = above.apply<math::FloorOp>();
  Type word = x.typeWith(b.getI32Type());
  return IntLanes(b, arith::FPToSIOp::create(b, word, above.value)).resize(8);
}

/// Returns code / largest, correctly rounded, for all integers that have a
/// code.
static FloatLanes divideByLargest(FloatLanes code, int64_t largest) {
  auto inverse = static_cast<float>(1.0 / static_cast<double>(largest));
  auto rest = static_cast<float>(1.0 / static_cast<double>(largest) - inverse);
  return fma(code, static_cast<double>(inverse),
             code * static_cast<double>(rest));
}

/// Returns t / (2 - |t|), correctly rounded for all integers divided by their
/// largest: a polynomial for the reciprocal, of relative error 0.0018, a step
/// of Newton's method, and a correction of the quotient. A division would take
/// as long, but on a unit that the update itself needs.
static FloatLanes invertSoftsign(FloatLanes t, bool isSigned) {
  constexpr double kPolynomial[] = {0x1.ff1cd6p-2, 0x1.1bf396p-2, 0.0,
                                    0x1.c652aap-3};
  FloatLanes magnitude = isSigned ? t.apply<math::AbsFOp>() : t;
  FloatLanes divisor = t.constant(2.0) - magnitude;
  FloatLanes inverse = polynomial(magnitude, kPolynomial);
  inverse = fma(fma(-divisor, inverse, 1.0), inverse, inverse);
  FloatLanes quotient = t * inverse;
  return fma(fma(-divisor, quotient, t), inverse, quotient);
}

FloatLanes mlir::binade::decodeCompanded(IntLanes code, CompandedAttr format,
                                         FloatLanes scale) {
  ImplicitLocOpBuilder &b = *code.builder;
  Type word = code.typeWith(b.getI32Type());
  Value wide = format.isSigned()
                   ? arith::ExtSIOp::create(b, word, code.value).getResult()
                   : arith::ExtUIOp::create(b, word, code.value);
  FloatLanes t = divideByLargest(toFloat({b, wide}), format.getLargestCode());
  if (format.hasSoftsign())
    t = invertSoftsign(t, format.isSigned());
  FloatLanes x = t * scale;
  return format.takesRoots() ? x * x : x;
}
