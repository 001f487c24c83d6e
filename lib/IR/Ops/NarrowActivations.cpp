//===- NarrowActivations.cpp - GELU rounded to 16 bits --------------------===//

#include "NarrowActivations.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

static constexpr double kCubic = 0.044715;
static const double kTanhScale = std::sqrt(2.0 / llvm::numbers::pi);

namespace {
/// Arithmetic on elements with short names, and the normal distribution.
struct Normal {
  ImplicitLocOpBuilder &b;
  Value x;

  Value number(double value) { return splat(b, x, value); }
  Value add(Value l, Value r) { return arith::AddFOp::create(b, l, r); }
  Value sub(Value l, Value r) { return arith::SubFOp::create(b, l, r); }
  Value mul(Value l, Value r) { return arith::MulFOp::create(b, l, r); }
  Value fma(Value x, Value y, Value z) {
    return math::FmaOp::create(b, x, y, z);
  }
  Value magnitude(Value x) { return math::AbsFOp::create(b, x); }
  Value exp(Value x) { return math::ExpOp::create(b, x); }
  /// Returns `below` for negative x, otherwise `above`.
  Value choose(Value below, Value above) {
    Value isNegative =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, number(0.0));
    return arith::SelectOp::create(b, isNegative, below, above);
  }

  /// Returns twice the distribution function at x.
  Value twiceCdf() {
    Value tail =
        math::ErfcOp::create(b, mul(magnitude(x), number(std::sqrt(0.5))));
    return choose(tail, sub(number(2.0), tail));
  }

  /// Returns the arguments of the fit by tanh: c (x + k x^3).
  Value tanhArgument() {
    Value inner =
        fma(mul(x, x), number(kTanhScale * kCubic), number(kTanhScale));
    return mul(x, inner);
  }
  /// Returns (1 + tanh(u)) / 2, for a u of the sign of x.
  Value sigmoid(Value u) {
    Value decay = exp(mul(magnitude(u), number(-2.0)));
    Value large =
        arith::DivFOp::create(b, number(1.0), add(number(1.0), decay));
    Value small = mul(decay, large);
    return choose(small, large);
  }
};
} // namespace

Value mlir::binade::buildNarrowGelu(ImplicitLocOpBuilder &b, Value x,
                                    Approximation approximation) {
  Normal n{b, x};
  if (approximation == Approximation::Tanh)
    return n.mul(x, n.sigmoid(n.tanhArgument()));
  return n.mul(n.mul(x, n.number(0.5)), n.twiceCdf());
}
