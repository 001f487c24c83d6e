//===- LowerVectors.cpp - Vector operations that LLVM supports ------------===//

#include "binade/Target/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::binade {
#define GEN_PASS_DEF_LOWERVECTORSPASS
#include "binade/Target/Passes.h.inc"

namespace {
/// Unrolls reductions of i1, because LLVM passes vectors of an odd length
/// through local memory.
struct UnrollTruthReduction : OpRewritePattern<vector::ReductionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(vector::ReductionOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getType().isInteger(1))
      return failure();
    Value all = op.getAcc();
    for (int64_t i = 0; i < op.getSourceVectorType().getNumElements(); ++i) {
      Value one =
          vector::ExtractOp::create(rewriter, op.getLoc(), op.getVector(), i);
      all = all ? vector::makeArithReduction(rewriter, op.getLoc(),
                                             op.getKind(), one, all)
                : one;
    }
    rewriter.replaceOp(op, all);
    return success();
  }
};

struct LowerVectorsPass : impl::LowerVectorsPassBase<LowerVectorsPass> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    set.add<UnrollTruthReduction>(context);
    vector::populateVectorBroadcastLoweringPatterns(set);
    vector::populateVectorGatherLoweringPatterns(set);
    vector::populateVectorGatherToConditionalLoadPatterns(set);
    vector::populateVectorInsertExtractStridedSliceTransforms(set);
    vector::populateVectorInterleaveToShufflePatterns(set);
    vector::populateVectorShapeCastLoweringPatterns(set);
    vector::populateVectorStepLoweringPatterns(set);
    vector::populateVectorTransposeLoweringPatterns(
        set, vector::VectorTransposeLowering::Shuffle1D);
    patterns = std::move(set);
    return success();
  }
  void runOnOperation() override {
    if (failed(applyPatternsGreedily(getOperation(), patterns)))
      signalPassFailure();
  }
  FrozenRewritePatternSet patterns;
};
} // namespace
} // namespace mlir::binade
