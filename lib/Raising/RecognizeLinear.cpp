//===- RecognizeLinear.cpp - Recognition of the bias of a matmul ----------===//

#include "Composites.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Merges matmul + bias, with one element per column, into the matmul. A
/// reshape that keeps the columns may be between them.
struct RecognizeLinear : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AddOp root,
                                PatternRewriter &rewriter) const override {
    if (root.getPrecisionAttr())
      return failure();
    for (auto [product, addend] : {std::pair(root.getLhs(), root.getRhs()),
                                   std::pair(root.getRhs(), root.getLhs())}) {
      Composite composite(root);
      Value bias = getPerColumn(addend);
      if (!bias)
        continue;
      if (auto reshape = composite.take<ReshapeOp>(product)) {
        auto from = cast<RankedTensorType>(reshape.getX().getType());
        if (from.getRank() == 0 ||
            from.getShape().back() !=
                cast<RankedTensorType>(bias.getType()).getDimSize(0))
          continue;
        product = reshape.getX();
      }
      auto matmul = composite.take<MatmulOp>(product);
      if (!matmul || matmul.getBias())
        continue;
      (void)composite.take<BroadcastOp>(addend);
      ImplicitLocOpBuilder b(composite.getLoc(), rewriter);
      Value linear = MatmulOp::create(
          b, matmul.getLhs(), matmul.getRhs(), bias, matmul.getTransposeLhs(),
          matmul.getTransposeRhs(), PrecisionAttr());
      rewriter.replaceOp(
          root, buildReshape(b, linear, root.getY().getType().getShape()));
      return success();
    }
    return failure();
  }
};
} // namespace

void mlir::binade::populateLinearPatterns(RewritePatternSet &patterns) {
  patterns.add<RecognizeLinear>(patterns.getContext());
}
