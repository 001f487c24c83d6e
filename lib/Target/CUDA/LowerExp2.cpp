//===- LowerExp2.cpp - Lowering of approximate powers of two --------------===//

#include "LowerExp2.h"
#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::binade;

bool mlir::binade::isApproximateExp2(Operation *op) {
  auto exp2 = dyn_cast<math::Exp2Op>(op);
  return exp2 && getElementTypeOrSelf(exp2.getType()).isF32() &&
         arith::bitEnumContainsAll(exp2.getFastmath(),
                                   arith::FastMathFlags::afn);
}

namespace {
/// Lowers to ex2.approx.ftz.f32. Without `ftz`, the assembler adds instructions
/// that compute subnormal results.
struct LowerExp2 : ConvertOpToLLVMPattern<math::Exp2Op> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;
  LogicalResult
  matchAndRewrite(math::Exp2Op op, OpAdaptor operands,
                  ConversionPatternRewriter &rewriter) const override {
    if (!isApproximateExp2(op))
      return rewriter.notifyMatchFailure(op, "may not be approximated");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto compute = [&](Value x) -> Value {
      return LLVM::CallIntrinsicOp::create(
                 b, x.getType(),
                 b.getStringAttr("llvm.nvvm.ex2.approx.ftz.f32"), ValueRange(x))
          .getResult(0);
    };
    Value x = operands.getOperand();
    auto vector = dyn_cast<VectorType>(x.getType());
    if (!vector) {
      rewriter.replaceOp(op, compute(x));
      return success();
    }
    Value all = LLVM::PoisonOp::create(b, vector);
    for (int64_t i = 0; i < vector.getNumElements(); ++i) {
      Value lane = LLVM::ConstantOp::create(b, b.getI64IntegerAttr(i));
      all = LLVM::InsertElementOp::create(
          b, all, compute(LLVM::ExtractElementOp::create(b, x, lane)), lane);
    }
    rewriter.replaceOp(op, all);
    return success();
  }
};
} // namespace

void mlir::binade::populateExp2Patterns(const LLVMTypeConverter &types,
                                        RewritePatternSet &patterns) {
  // More than that of patterns which call a library or LLVM's llvm.exp2.
  constexpr unsigned kBenefit = 30;
  patterns.add<LowerExp2>(types, kBenefit);
}
