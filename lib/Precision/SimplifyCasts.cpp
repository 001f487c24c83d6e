//===- SimplifyCasts.cpp - Remove casts that change no value --------------===//

#include "binade/IR/Build.h"
#include "binade/Precision/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::binade {
#define GEN_PASS_DEF_SIMPLIFYCASTSPASS
#include "binade/Precision/Passes.h.inc"

/// Whether `wide` holds every value of `narrow`: infinities, NaN, and zeros of
/// either sign included.
static bool holdsAll(FloatType wide, FloatType narrow) {
  const llvm::fltSemantics &w = wide.getFloatSemantics();
  const llvm::fltSemantics &n = narrow.getFloatSemantics();
  auto hasAll = [&](auto has) { return has(w) || !has(n); };
  return APFloat::isRepresentableBy(n, w) && hasAll(APFloat::semanticsHasInf) &&
         hasAll(APFloat::semanticsHasNaN) &&
         hasAll(APFloat::semanticsHasSignedRepr) &&
         hasAll(APFloat::semanticsHasZero) &&
         hasAll([](const llvm::fltSemantics &semantics) {
           return APFloat::semanticsHasZero(semantics) &&
                  APFloat::getZero(semantics, /*Negative=*/true).isNegative();
         });
}

static bool hasInf(FloatType type) {
  return APFloat::semanticsHasInf(type.getFloatSemantics());
}

/// Whether a cast makes of the largest number what it makes of infinity.
static bool isInfinityToo(FloatType from, FloatType to, bool saturate) {
  const llvm::fltSemantics &t = to.getFloatSemantics();
  APFloat value = APFloat::getLargest(from.getFloatSemantics());
  bool losesInfo;
  value.convert(t, APFloat::rmNearestTiesToEven, &losesInfo);
  bool isBounded = saturate || (!APFloat::semanticsHasInf(t) &&
                                !APFloat::semanticsHasNaN(t));
  return !value.isFinite() ||
         (isBounded && value.bitwiseIsEqual(APFloat::getLargest(t)));
}

namespace {
/// A cast through a format that holds the source is no stop on the way, but
/// that a saturating first cast makes infinities finite.
struct MergeCasts : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(CastOp op,
                                PatternRewriter &rewriter) const override {
    auto before = op.getX().getDefiningOp<CastOp>();
    if (!before)
      return failure();
    auto element = [](Value x) {
      return dyn_cast<FloatType>(getElementTypeOrSelf(x.getType()));
    };
    FloatType source = element(before.getX()), middle = element(op.getX()),
              target = element(op.getY());
    if (!source || !middle || !target || !holdsAll(middle, source))
      return failure();
    if (before.getSaturate() && hasInf(source) &&
        !isInfinityToo(middle, target, op.getSaturate()))
      return failure();
    auto merged = rewriter.replaceOpWithNewOp<CastOp>(
        op, op.getType(), before.getX(), op.getSaturate());
    merged->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    return success();
  }
};

/// Rounding to a format that holds what the operand was cast from rounds
/// nothing.
struct DropRounding : OpRewritePattern<RoundToOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RoundToOp op,
                                PatternRewriter &rewriter) const override {
    auto before = op.getX().getDefiningOp<CastOp>();
    auto source =
        before
            ? dyn_cast<FloatType>(getElementTypeOrSelf(before.getX().getType()))
            : FloatType();
    if (!source || !holdsAll(op.getFloatFormat(), source))
      return failure();
    rewriter.replaceOp(op, before.getY());
    return success();
  }
};

struct SimplifyCastsPass : impl::SimplifyCastsPassBase<SimplifyCastsPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<MergeCasts, DropRounding>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
} // namespace mlir::binade
