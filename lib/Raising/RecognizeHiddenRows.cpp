//===- RecognizeHiddenRows.cpp - Softmax of fully masked rows -------------===//
//
// The softmax of a row of masks is NaN (0 / 0), and exporters replace it by 0
// after the softmax. Its gradient is still NaN, 0 times NaN. Replacing the row
// before the softmax makes the gradient 0.
//
//===----------------------------------------------------------------------===//

#include "Composites.h"

using namespace mlir;
using namespace mlir::binade;

Value mlir::binade::getTestedForNaN(Value condition,
                                    SmallVectorImpl<Operation *> &ops) {
  auto negation = condition.getDefiningOp<NotOp>();
  auto compare =
      negation ? negation.getX().getDefiningOp<CompareOp>() : CompareOp();
  if (!compare || compare.getComparison() != Comparison::Equal ||
      compare.getLhs() != compare.getRhs())
    return {};
  ops.append({negation, compare});
  return compare.getLhs();
}

namespace {
/// Matches isNaN(y) ? 0 : y with y = softmax(x).
struct RecognizeHiddenRows : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SelectOp root,
                                PatternRewriter &rewriter) const override {
    auto softmax = root.getRhs().getDefiningOp<SoftmaxOp>();
    SmallVector<Operation *> test;
    if (!softmax || softmax.getPrecisionAttr() || root.getPrecisionAttr() ||
        !isSplat(root.getLhs(), 0.0) ||
        getTestedForNaN(root.getCondition(), test) != softmax.getY())
      return failure();
    rewriter.replaceOp(root, build(softmax, root, rewriter));
    return success();
  }

private:
  static Value build(SoftmaxOp softmax, SelectOp root,
                     PatternRewriter &rewriter) {
    ImplicitLocOpBuilder b(root.getLoc(), rewriter);
    Value x = softmax.getX();
    auto type = cast<RankedTensorType>(x.getType());
    int64_t last = type.getRank() - 1;
    auto kept = llvm::to_vector(llvm::seq<int64_t>(0, last));
    Value largest = ReduceMaxOp::create(b, x, last);
    Value isHidden = CompareOp::create(
        b, largest, buildSplat(b, largest.getType(), -INFINITY),
        Comparison::Equal);
    isHidden = buildBroadcast(b, isHidden, kept, type.getShape());
    Value zero = buildSplat(b, type, 0.0);
    b.setLoc(softmax.getLoc());
    Value y = SoftmaxOp::create(b, SelectOp::create(b, isHidden, zero, x),
                                PrecisionAttr());
    b.setLoc(root.getLoc());
    Value isNumber = CompareOp::create(b, y, y, Comparison::Equal);
    Value isZero = OrOp::create(b, isHidden, NotOp::create(b, isNumber));
    return SelectOp::create(b, isZero, root.getLhs(), y);
  }
};
} // namespace

void mlir::binade::populateHiddenRowPatterns(RewritePatternSet &patterns) {
  patterns.add<RecognizeHiddenRows>(patterns.getContext());
}
