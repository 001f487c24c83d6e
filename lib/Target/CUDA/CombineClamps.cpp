//===- CombineClamps.cpp - Clamps as minima and maxima --------------------===//

#include "binade/Target/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace mlir::binade {
#define GEN_PASS_DEF_COMBINECLAMPSPASS
#include "binade/Target/Passes.h.inc"
} // namespace mlir::binade

using namespace mlir;

namespace {
/// Matches x beyond bound ? bound : x.
struct SelectClamp : OpRewritePattern<arith::SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::SelectOp op,
                                PatternRewriter &rewriter) const override {
    auto compare = op.getCondition().getDefiningOp<arith::CmpFOp>();
    Value x = op.getFalseValue(), bound = op.getTrueValue();
    APFloat limit(0.0);
    if (!compare || compare.getLhs() != x || compare.getRhs() != bound ||
        !matchPattern(bound, m_ConstantFloat(&limit)))
      return rewriter.notifyMatchFailure(op, "is not a clamp by a constant");
    // A minimum orders -0 before 0, a comparison does not.
    if (limit.isZero() || limit.isNaN())
      return rewriter.notifyMatchFailure(
          op, "minima and maxima treat 0 and NaN differently");
    switch (compare.getPredicate()) {
    case arith::CmpFPredicate::OGT:
      rewriter.replaceOpWithNewOp<arith::MinimumFOp>(op, x, bound);
      return success();
    case arith::CmpFPredicate::OLT:
      rewriter.replaceOpWithNewOp<arith::MaximumFOp>(op, x, bound);
      return success();
    default:
      return rewriter.notifyMatchFailure(
          op, "a minimum or maximum would not keep NaN");
    }
  }
};

struct CombineClampsPass
    : mlir::binade::impl::CombineClampsPassBase<CombineClampsPass> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    set.add<SelectClamp>(context);
    patterns = std::move(set);
    return success();
  }
  void runOnOperation() override {
    walkAndApplyPatterns(getOperation(), patterns);
  }
  FrozenRewritePatternSet patterns;
};
} // namespace
