#ifndef BINADE_CONVERSION_PASSES_TD
#define BINADE_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def EmitKernelsPass : Pass<"binade-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "replace kernels by loops over memory";
  let description = [{
    Replaces every function with `binade.kernel` by the functions that `emitKernel`
    makes of it: `@<kernel>.items`, which does a range of work items, and where
    partial results have to be put together `@<kernel>.finish`. The step that launches
    them and the rules of optimizers are erased: what is left is code.
  }];
  let dependentDialects = [
      "::mlir::arith::ArithDialect",
      "::mlir::func::FuncDialect", "::mlir::math::MathDialect",
      "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
      "::mlir::vector::VectorDialect"];
}

def EmitGpuKernelsPass : Pass<"binade-emit-gpu-kernels", "::mlir::ModuleOp"> {
  let summary = "replace kernels by kernels of the gpu dialect";
  let description = [{
    Replaces every function with `binade.kernel` by the kernel of `@kernels`, a
    `gpu.module`, that `emitGpuKernel` makes of it, and erases what launches them.
  }];
  let dependentDialects = [
      "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
      "::mlir::gpu::GPUDialect", "::mlir::math::MathDialect",
      "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
      "::mlir::vector::VectorDialect"];
}

def ExpandMathPass : Pass<"binade-expand-math"> {
  let summary = "replace functions of f32 and f64 by arithmetic";
  let description = [{
    Replaces `math.exp`, `exp2`, `expm1`, `log`, `log2`, `log1p`, `tanh`, `erf`,
    `sin`, `cos`, `atan`, `rsqrt` and `powf` on f32 scalars and vectors of any shape by
    straight-line code of `arith` operations, `math.fma`, `math.sqrt` and the
    like, each of which is one instruction on a CPU with FMA. Nothing calls a
    library, no fast-math flag is set, and a lane's result does not depend on
    the number of lanes. `powf` with a constant exponent of 1, 2, 3, -1, 0.5 or
    -0.5 becomes multiplications or a root. Of functions of
    f64 `math.exp`, `log` and `powf` are replaced, for the few numbers of an optimizer.
    Other operations on f64, and those on tensors, are left alone.

    The largest errors over all inputs, in ulp (`docs/Math.md` says how they were
    measured):

    | exp  | exp2 | expm1 | log  | log2 | log1p | tanh | erf  | sin, cos | rsqrt | powf |
    |------|------|-------|------|------|-------|------|------|----------|-------|------|
    | 0.90 | 0.88 | 1.45  | 0.94 | 1.43 | 1.27  | 1.37 | 1.14 | 0.51     | 1.50  | 0.53 |

    Special values follow IEEE 754 and C; subnormal inputs and results are within
    the same bounds.

    Example:

    ```mlir
    %two = arith.constant dense<2.0> : vector<8xf32>
    %y = math.powf %x, %two : vector<8xf32>
    // becomes
    %y = arith.mulf %x, %x : vector<8xf32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def ExpandFloatCastsPass : Pass<"binade-expand-float-casts"> {
  let summary = "replace casts from and to bf16 by integer arithmetic";
  let description = [{
    Replaces `arith.truncf` from f32 to bf16, and `arith.extf` from bf16 to f32
    or f64, by integer operations on scalars and vectors of any shape: to nearest
    even, subnormals kept, a NaN to the quiet NaN `0x7fc0` of its sign. The CPU
    instruction that LLVM would choose flushes subnormals to zero. `arith.truncf`
    from f64 to bf16 or f16 goes through an f32 that is rounded to odd, so that
    the value is rounded only once.

    Casts between f16 and f32, and between f32 and f64, are left alone: they are
    exact or round once in hardware. A `truncf` with another rounding mode than
    `to_nearest_even` is left alone, too.

    Casts between f32 and a format of 8 bits become integer operations as well; of a
    rounding that follows a clamp to the format's largest numbers, the clamp goes. With
    `keep` formats are named that the target has instructions for: `arith.truncf` from f32
    to them stays, and so does `arith.extf` from them to f32.

    Example:

    ```mlir
    %y = arith.extf %x : vector<16xbf16> to vector<16xf32>
    // becomes
    %c16 = arith.constant dense<16> : vector<16xi32>
    %0 = arith.bitcast %x : vector<16xbf16> to vector<16xi16>
    %1 = arith.extui %0 : vector<16xi16> to vector<16xi32>
    %2 = arith.shli %1, %c16 : vector<16xi32>
    %y = arith.bitcast %2 : vector<16xi32> to vector<16xf32>
    ```
  }];
  let options = [
      ListOption<"keep", "keep", "std::string",
                 "formats that the target converts f32 to: bf16, f8E4M3FN, ...">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

#endif // BINADE_CONVERSION_PASSES_TD
