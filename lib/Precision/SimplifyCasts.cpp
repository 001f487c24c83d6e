//===- SimplifyCasts.cpp - Remove casts that change no value --------------===//

#include "binade/IR/Build.h"
#include "binade/Precision/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::binade {
#define GEN_PASS_DEF_SIMPLIFYCASTSPASS
#include "binade/Precision/Passes.h.inc"

/// Whether `wide` holds every value of `narrow`, infinities and NaN included.
static bool holdsAll(FloatType wide, FloatType narrow) {
  const llvm::fltSemantics &w = wide.getFloatSemantics();
  const llvm::fltSemantics &n = narrow.getFloatSemantics();
  return APFloat::isRepresentableBy(n, w) &&
         (APFloat::semanticsHasInf(w) || !APFloat::semanticsHasInf(n)) &&
         (APFloat::semanticsHasNaN(w) || !APFloat::semanticsHasNaN(n));
}

namespace {
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
    FloatType source = element(before.getX()), middle = element(op.getX());
    // A cast through a format that holds the source is no stop on the way.
    if (!source || !middle || !element(op.getY()) || !holdsAll(middle, source))
      return failure();
    if (before.getX().getType() == op.getType())
      rewriter.replaceOp(op, before.getX());
    else
      rewriter.replaceOpWithNewOp<CastOp>(op, op.getType(), before.getX(),
                                          op.getSaturate());
    return success();
  }
};

struct SimplifyCastsPass : impl::SimplifyCastsPassBase<SimplifyCastsPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<MergeCasts>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
} // namespace mlir::binade
