//===- LowerMma.cpp - Lowering of matrix instructions to NVVM -------------===//
//
// MLIR's own pattern for nvgpu.mma.sync does not support bf16.
//
//===----------------------------------------------------------------------===//

#include "LowerMma.h"
#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Conversion/NVGPUToNVVM/NVGPUToNVVM.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Lowers nvgpu.mma.sync of f16 and bf16 with sums in f32.
struct LowerMmaSync : ConvertOpToLLVMPattern<nvgpu::MmaSyncOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;
  LogicalResult
  matchAndRewrite(nvgpu::MmaSyncOp op, OpAdaptor operands,
                  ConversionPatternRewriter &rewriter) const override {
    VectorType lhs = op.getMatrixA().getType(),
               sums = op.getMatrixC().getType();
    Type format = lhs.getElementType();
    if ((!format.isF16() && !format.isBF16()) || !sums.getElementType().isF32())
      return rewriter.notifyMatchFailure(
          op, "is not a matmul of f16 or bf16 with sums in f32");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    // Two elements form a register; those of bf16 are passed as integers.
    auto getRegisters = [&](Value matrix) {
      SmallVector<Value> all;
      int64_t count =
          cast<LLVM::LLVMArrayType>(matrix.getType()).getNumElements();
      for (int64_t i = 0; i < count; ++i) {
        Value pair = LLVM::ExtractValueOp::create(b, matrix, i);
        all.push_back(
            format.isF16()
                ? pair
                : LLVM::BitcastOp::create(b, b.getI32Type(), pair).getResult());
      }
      return all;
    };
    Value before = operands.getMatrixC();
    auto pairs = cast<LLVM::LLVMArrayType>(before.getType());
    auto lane = [&](int64_t i) {
      return LLVM::ConstantOp::create(b, b.getI64IntegerAttr(i));
    };
    SmallVector<Value> addends;
    for (int64_t i = 0; i < sums.getNumElements(); ++i)
      addends.push_back(LLVM::ExtractElementOp::create(
          b, LLVM::ExtractValueOp::create(b, before, i / 2), lane(i % 2)));
    auto type = LLVM::LLVMStructType::getLiteral(
        b.getContext(), SmallVector<Type>(addends.size(), b.getF32Type()));
    auto [m, n, k] = op.getMmaShapeAsArray();
    auto kind = format.isF16() ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16;
    Value products = NVVM::MmaOp::create(
        b, type, getRegisters(operands.getMatrixA()),
        getRegisters(operands.getMatrixB()), addends,
        ArrayRef<int64_t>{m, n, k}, /*b1Op=*/std::nullopt,
        /*intOverflow=*/std::nullopt, std::array{kind, kind},
        std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
    Value all = LLVM::PoisonOp::create(b, pairs);
    for (int64_t i = 0; i < sums.getNumElements(); i += 2) {
      Value pair = LLVM::PoisonOp::create(b, pairs.getElementType());
      for (int64_t j = 0; j < 2; ++j)
        pair = LLVM::InsertElementOp::create(
            b, pair, LLVM::ExtractValueOp::create(b, products, i + j), lane(j));
      all = LLVM::InsertValueOp::create(b, all, pair, i / 2);
    }
    rewriter.replaceOp(op, all);
    return success();
  }
};
} // namespace

void mlir::binade::populateMmaPatterns(const LLVMTypeConverter &types,
                                       RewritePatternSet &patterns) {
  populateNVGPUToNVVMConversionPatterns(types, patterns);
  patterns.add<LowerMmaSync>(types, /*benefit=*/10);
}
