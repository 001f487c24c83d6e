//===- Passes.td - passes of the Target station ---------------------------===//

#ifndef BINADE_TARGET_PASSES_TD
#define BINADE_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

def NarrowFloatsToBitsPass : Pass<"binade-narrow-floats-to-bits", "::mlir::ModuleOp"> {
  let summary = "hold floats of 16 bits and fewer as integers";
  let description = [{
    Gives every value and memory of f16, bf16 or a float of 8 bits or fewer the type of its
    bits, with bitcasts where it is widened or rounded. What moves narrow floats (loads,
    selections, shuffles) is left to integer instructions: LLVM would move some of them
    through f32, by calls of a library or with the subnormals lost, or compute in them.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def LowerTransposesPass : Pass<"binade-lower-transposes"> {
  let summary = "transposes of vectors as shuffles";
  let description = [{
    Replaces `vector.transpose` by shuffles of rows; a tile of 16 x 16 elements of 32
    bits takes 64 shuffles of two rows each.
  }];
  let dependentDialects = ["::mlir::vector::VectorDialect"];
}

def AddEntryPointsPass : Pass<"binade-add-entry-points", "::mlir::ModuleOp"> {
  let summary = "the functions by which a runtime calls kernels";
  let description = [{
    For each `llvm.func @<kernel>.items(ptr, ..., i64, i64)` adds `@<kernel>`, which
    takes the addresses of the buffers in an array:
    `void <kernel>(void *const *buffers, int64_t begin, int64_t end)`, and for
    `@<kernel>.finish(ptr, ..., i64)` adds `@<kernel>_finish` with one number.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def SelectConversionsPass : Pass<"binade-select-conversions"> {
  let summary = "casts that a chip of NVIDIA's has instructions for";
  let description = [{
    Replaces casts between f32 and narrow floats by operations of the nvvm dialect that
    convert two numbers at once: f32 to bf16 and f16, and where the chip knows the formats
    f32 to `f8E4M3FN` and `f8E5M2`, clamped (the instruction saturates, and the clamp
    goes), and back by way of f16. A division for such codes is a product with a
    reciprocal, corrected, where many numbers have the same divisor. bf16 is widened two
    numbers at once. Other casts stay for `binade-expand-float-casts`.
  }];
  let options = [
      Option<"chip", "chip", "std::string", /*default=*/"\"sm_90\"",
             "sm_80, sm_89, sm_90 or sm_100">];
  let dependentDialects = [
      "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
      "::mlir::math::MathDialect", "::mlir::NVVM::NVVMDialect",
      "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def SelectClampsPass : Pass<"binade-select-clamps"> {
  let summary = "bounds of numbers as minima and maxima";
  let description = [{
    Replaces the choice of a constant, other than 0, where a number is beyond it by
    `arith.minimumf` or `arith.maximumf`, each an instruction that keeps NaN, where a
    comparison and a choice are two.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def SetCudaTargetPass : Pass<"binade-set-cuda-target", "::mlir::ModuleOp"> {
  let summary = "say what a chip's library multiplies";
  let description = [{
    Sets `binade.target`, by which ops choose how they are computed: products of FP8
    codes, and biases.
  }];
  let options = [
      Option<"chip", "chip", "std::string", /*default=*/"\"sm_90\"",
             "sm_80, sm_89, sm_90 or sm_100">];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def LowerVectorsPass : Pass<"binade-lower-vectors"> {
  let summary = "operations on vectors that LLVM has";
  let description = [{
    Replaces gathers by one load per lane, transposes and interleaved vectors by shuffles,
    and the like, as far as LLVM has no instruction for them.
  }];
  let dependentDialects = [
      "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
      "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def LowerToNVVMPass : Pass<"binade-lower-to-nvvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "kernels of the gpu dialect to the LLVM and nvvm dialects";
  let description = [{
    Converts everything in a `gpu.module`: memory to bare pointers, shared memory to
    globals of its address space, `known_block_size` to a required block size, and
    `@<kernel>.items` to `@<kernel>`, `@<kernel>.finish` to `@<kernel>_finish`. What has no
    instruction is an error that names it: nothing is left for a library. The blocks that
    a kernel wants resident, `nvvm.preferred_minctasm`, become `nvvm.minctasm` where the
    chip's assembler has registers for them.
  }];
  let options = [
      Option<"chip", "chip", "std::string", /*default=*/"\"sm_90\"",
             "sm_80, sm_89, sm_90 or sm_100">];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect"];
}

#endif // BINADE_TARGET_PASSES_TD
