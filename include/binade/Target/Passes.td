//===- Passes.td - passes of the Target station ---------------------------===//

#ifndef BINADE_TARGET_PASSES_TD
#define BINADE_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

def NarrowFloatsToBitsPass : Pass<"binade-narrow-floats-to-bits", "::mlir::ModuleOp"> {
  let summary = "hold 16-bit floats as integers";
  let description = [{
    Gives every value and memory of f16 or bf16 the type i16, with bitcasts where f16 is
    widened or rounded. What moves 16-bit floats (loads, selections, shuffles) is left
    to integer instructions: LLVM would move some of them through f32, by calls of a
    library or with the subnormals lost. Expects casts of bf16 to be expanded.
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

#endif // BINADE_TARGET_PASSES_TD
