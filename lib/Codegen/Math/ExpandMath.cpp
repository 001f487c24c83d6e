//===- ExpandMath.cpp - Expansion of transcendental functions -------------===//

#include "Expansions.h"
#include "binade/Codegen/Passes.h"
#include "binade/IR/Accuracy.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace mlir::binade {
#define GEN_PASS_DEF_EXPANDMATHPASS
#include "binade/Codegen/Passes.h.inc"
} // namespace mlir::binade

using namespace mlir;
using namespace mlir::binade;

/// Whether a register can hold `type`: a float of `width` bits, or a vector.
static bool isLanes(Type type, unsigned width) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return element && element.getWidth() == width &&
         (element.isF32() || element.isF64()) &&
         isa<FloatType, VectorType>(type);
}

/// Fails if `op` is not to be expanded for lanes of `width` bits. Functions
/// that may be approximated (`afn`) remain for the target's instruction.
template <typename Op>
static LogicalResult canExpand(Op op, unsigned width,
                               PatternRewriter &rewriter) {
  if (!isLanes(op.getType(), width))
    return rewriter.notifyMatchFailure(
        op, "is not a scalar or vector of this width");
  if (arith::bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::afn))
    return rewriter.notifyMatchFailure(op, "may be approximated");
  return success();
}

namespace {
template <typename Op, FloatLanes (*expand)(FloatLanes), unsigned width = 32>
struct ExpandUnary : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (failed(canExpand(op, width, rewriter)))
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    rewriter.replaceOp(op, expand({b, op.getOperand()}).value);
    return success();
  }
};

/// Expands by the attribute that says for which format the result is accurate.
template <typename Op, FloatLanes (*expand)(FloatLanes, FloatType)>
struct ExpandByAccuracy : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (failed(canExpand(op, 32, rewriter)))
      return failure();
    FloatType accuracy = getAccuracy(op);
    if (std::is_same_v<Op, math::ErfcOp> && !accuracy)
      return rewriter.notifyMatchFailure(op, "is to be accurate for f32");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    rewriter.replaceOp(op, expand({b, op.getOperand()}, accuracy).value);
    return success();
  }
};

struct ExpandPowF : OpRewritePattern<math::PowFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::PowFOp op,
                                PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    FloatLanes x(b, op.getLhs());
    if (isLanes(op.getType(), 64)) {
      rewriter.replaceOp(op, expandScalarPow(x, {b, op.getRhs()}).value);
      return success();
    }
    if (!isLanes(op.getType(), 32))
      return rewriter.notifyMatchFailure(
          op, "is not a scalar or vector of f32 or f64");
    APFloat exponent(0.0f);
    std::optional<FloatLanes> power;
    if (matchPattern(op.getRhs(), m_ConstantFloat(&exponent)))
      power = expandPowConstant(x, exponent);
    if (!power)
      power = expandPow(x, {b, op.getRhs()});
    rewriter.replaceOp(op, power->value);
    return success();
  }
};

struct ExpandMathPass : mlir::binade::impl::ExpandMathPassBase<ExpandMathPass> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    populateExpandMathPatterns(set);
    patterns = std::move(set);
    return success();
  }
  void runOnOperation() override {
    walkAndApplyPatterns(getOperation(), patterns);
    if (failed(checkDoubles()))
      signalPassFailure();
  }
  /// Reports functions of f64 that LLVM has no intrinsic for.
  LogicalResult checkDoubles() {
    WalkResult walked = getOperation()->walk([](Operation *op) {
      if (!isa<math::ErfOp, math::Log1pOp>(op) ||
          !getElementTypeOrSelf(op->getResultTypes().front()).isF64())
        return WalkResult::advance();
      emitError(op->getLoc())
          << "computes " << op->getName().stripDialect()
          << " in f64, for which there is no kernel; expected f32 or a "
             "narrower format";
      return WalkResult::interrupt();
    });
    return failure(walked.wasInterrupted());
  }
  FrozenRewritePatternSet patterns;
};
} // namespace

void mlir::binade::populateExpandMathPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandByAccuracy<math::ExpOp, expandExp>,
               ExpandUnary<math::Exp2Op, expandExp2>,
               ExpandUnary<math::ExpM1Op, expandExpm1>,
               ExpandByAccuracy<math::LogOp, expandLog>,
               ExpandUnary<math::Log2Op, expandLog2>,
               ExpandUnary<math::Log1pOp, expandLog1p>,
               ExpandByAccuracy<math::TanhOp, expandTanh>,
               ExpandByAccuracy<math::ErfOp, expandErf>,
               ExpandByAccuracy<math::ErfcOp, expandErfc>,
               ExpandUnary<math::SinOp, expandSin>,
               ExpandUnary<math::CosOp, expandCos>,
               ExpandUnary<math::AtanOp, expandAtan>,
               ExpandUnary<math::RsqrtOp, expandRsqrt>,
               ExpandUnary<math::ExpOp, expandScalarExp, 64>,
               ExpandUnary<math::LogOp, expandScalarLog, 64>, ExpandPowF>(
      patterns.getContext());
}
