//===- LowerTransposes.cpp - Vector transposes as shuffles ----------------===//

#include "binade/Target/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::binade {
#define GEN_PASS_DEF_LOWERTRANSPOSESPASS
#include "binade/Target/Passes.h.inc"

namespace {
struct LowerTransposesPass
    : impl::LowerTransposesPassBase<LowerTransposesPass> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    vector::populateVectorTransposeLoweringPatterns(
        set, vector::VectorTransposeLowering::Shuffle16x16);
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
