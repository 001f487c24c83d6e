//===- SetCudaTarget.cpp - Capabilities of a chip -------------------------===//

#include "binade/IR/Interface.h"
#include "binade/Target/CUDA.h"
#include "binade/Target/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_SETCUDATARGETPASS
#include "binade/Target/Passes.h.inc"

/// Requirements of cuBLASLt: rows of FP8 matmuls are multiples of 16 bytes, and
/// block scales have blocks of 128.
static constexpr int64_t kMultiple = 16, kBlock = 128;

/// Elements of a tile of scores: enough work for the whole GPU, and few enough
/// for caches to hold a part of them.
static constexpr int64_t kPiece = 1 << 24;

/// Maximum columns of heads for which attention kernels have registers.
static constexpr int64_t kMaxColumns = 128;

/// Emits an error for the first matmul that models an accumulator: kernels for
/// GPUs add in those of the chip, and these differ from chip to chip.
static LogicalResult checkAccumulations(ModuleOp module) {
  WalkResult walked = module.walk([](ScaledMatmulOp op) {
    if (!op.getAccumulation())
      return WalkResult::advance();
    op.emitError("models an accumulator of ")
        << op.getAccumulation()->getBits()
        << " bits, which only the CPU computes; compile for the CPU, or with a "
           "policy without such 'accumulate', for example fp8-current: the GPU "
           "then adds products as its own matrix units do";
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

namespace {
struct SetCudaTargetPass : impl::SetCudaTargetPassBase<SetCudaTargetPass> {
  using SetCudaTargetPassBase::SetCudaTargetPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<const CudaChip *> found =
        getCudaChip(chip, [&] { return module.emitError(); });
    if (failed(found))
      return signalPassFailure();
    if (failed(checkAccumulations(module)))
      return signalPassFailure();
    SmallVector<FloatType> codes;
    Builder b(&getContext());
    if ((*found)->hasFloat8)
      codes = {b.getType<Float8E4M3FNType>(), b.getType<Float8E5M2Type>()};
    module->setAttr(
        kTargetAttr,
        TargetAttr::get(&getContext(), b.getStringAttr(getCudaTarget(**found)),
                        kPiece, codes, codes.empty() ? 1 : kMultiple,
                        (*found)->hasBlocks ? kBlock : 0,
                        {b.getF16Type(), b.getBF16Type()}, kMaxColumns));
  }
};
} // namespace
} // namespace mlir::binade
