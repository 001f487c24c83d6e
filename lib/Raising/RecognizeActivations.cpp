//===- RecognizeActivations.cpp - Recognition of GELU and SiLU ------------===//

#include "Composites.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::binade;

/// Removes x^n from `factors`: a `pow` with a constant exponent, or n factors
/// x. Returns false if there is neither.
static bool takePower(Composite &composite, SmallVectorImpl<Value> &factors,
                      Value x, int64_t exponent) {
  Value power = takeFactor(factors, [&](Value factor) {
    auto pow = factor.getDefiningOp<PowOp>();
    return pow && pow.getLhs() == x && isSplat(pow.getRhs(), exponent) &&
           composite.take<PowOp>(factor);
  });
  if (power)
    return true;
  for (int64_t i = 0; i < exponent; ++i)
    if (!takeFactor(factors, [&](Value factor) { return factor == x; }))
      return false;
  return true;
}

/// Returns the operand of `1 + operand`, in any order; null for other values.
static Value takeOnePlus(Composite &composite, Value value) {
  auto sum = composite.take<AddOp>(value);
  if (!sum)
    return {};
  if (isSplat(sum.getLhs(), 1.0))
    return sum.getRhs();
  return isSplat(sum.getRhs(), 1.0) ? sum.getLhs() : Value();
}

/// Whether `factors` are x + 0.044715 x^3, as a sum or as x (1 + 0.044715 x^2).
static bool takeCubic(Composite &composite, SmallVectorImpl<Value> &factors,
                      Value x) {
  constexpr double kCubic = 0.044715;
  if (takeFactor(factors, [&](Value factor) { return factor == x; })) {
    if (factors.size() != 1)
      return false;
    Value term = takeOnePlus(composite, factors.front());
    if (!term)
      return false;
    factors = composite.takeFactors(term);
    return dropFactor(factors, kCubic) && takePower(composite, factors, x, 2) &&
           factors.empty();
  }
  if (factors.size() != 1)
    return false;
  auto sum = composite.take<AddOp>(factors.front());
  if (!sum || (sum.getLhs() != x && sum.getRhs() != x))
    return false;
  factors =
      composite.takeFactors(sum.getLhs() == x ? sum.getRhs() : sum.getLhs());
  return dropFactor(factors, kCubic) && takePower(composite, factors, x, 3) &&
         factors.empty();
}

/// Whether `value` is tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
static bool isTanhOf(Composite &composite, Value value, Value x) {
  auto tanh = composite.take<TanhOp>(value);
  if (!tanh)
    return false;
  SmallVector<Value> factors = composite.takeFactors(tanh.getX());
  return dropFactor(factors, std::sqrt(2.0 / llvm::numbers::pi)) &&
         takeCubic(composite, factors, x);
}

/// Whether `value` is erf(x / sqrt(2)), with a quotient or a product.
static bool isErfOf(Composite &composite, Value value, Value x) {
  auto erf = composite.take<ErfOp>(value);
  if (!erf)
    return false;
  if (auto quotient = composite.take<DivOp>(erf.getX()))
    return quotient.getLhs() == x &&
           isSplat(quotient.getRhs(), llvm::numbers::sqrt2);
  SmallVector<Value> factors = composite.takeFactors(erf.getX());
  return dropFactor(factors, llvm::numbers::inv_sqrt2) && factors.size() == 1 &&
         factors.front() == x;
}

namespace {
/// Replaces x 0.5 (1 + f(x)), with the factors in any order, by `gelu`.
struct RecognizeGelu : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MulOp root,
                                PatternRewriter &rewriter) const override {
    if (root.getPrecisionAttr())
      return failure();
    for (Approximation approximate : {Approximation::Tanh, Approximation::None})
      if (succeeded(match(root, approximate, rewriter)))
        return success();
    return failure();
  }

private:
  static LogicalResult match(MulOp root, Approximation approximate,
                             PatternRewriter &rewriter) {
    Composite composite(root);
    SmallVector<Value> factors = composite.takeFactors(root.getLhs());
    llvm::append_range(factors, composite.takeFactors(root.getRhs()));
    if (!dropFactor(factors, 0.5) || factors.size() != 2)
      return failure();
    for (unsigned side : {0u, 1u}) {
      Value x = factors[side], sum = factors[1 - side];
      Composite attempt = composite;
      Value inner = takeOnePlus(attempt, sum);
      if (!inner)
        continue;
      bool matches = approximate == Approximation::Tanh
                         ? isTanhOf(attempt, inner, x)
                         : isErfOf(attempt, inner, x);
      if (!matches)
        continue;
      ImplicitLocOpBuilder b(attempt.getLoc(), rewriter);
      rewriter.replaceOp(
          root, GeluOp::create(b, x, approximate, PrecisionAttr()).getY());
      return success();
    }
    return failure();
  }
};

/// Replaces x sigmoid(x), in either order, by `silu`.
struct RecognizeSilu : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MulOp root,
                                PatternRewriter &rewriter) const override {
    if (root.getPrecisionAttr())
      return failure();
    for (auto [x, factor] : {std::pair(root.getLhs(), root.getRhs()),
                             std::pair(root.getRhs(), root.getLhs())}) {
      Composite composite(root);
      auto sigmoid = composite.take<SigmoidOp>(factor);
      if (!sigmoid || sigmoid.getX() != x)
        continue;
      ImplicitLocOpBuilder b(composite.getLoc(), rewriter);
      rewriter.replaceOp(root, SiluOp::create(b, x).getY());
      return success();
    }
    return failure();
  }
};
} // namespace

void mlir::binade::populateActivationPatterns(RewritePatternSet &patterns) {
  patterns.add<RecognizeGelu, RecognizeSilu>(patterns.getContext());
}
