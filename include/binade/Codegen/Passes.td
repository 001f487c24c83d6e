//===- Passes.td - Conversion passes --------------------------------------===//

#ifndef BINADE_CONVERSION_PASSES_TD
#define BINADE_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def EmitKernelsPass : Pass<"binade-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "Lower kernels to loops of vector code for CPUs";
  let description = [{
    Replaces every function with the attribute `binade.kernel` by a function
    `@<kernel>.items` that executes a range of work items, so that the runtime can divide
    the items among threads. Its arguments are the operands and results of the kernel as
    memrefs, a workspace where the kernel needs one, and the bounds of the range. A kernel
    with partial results, such as a full reduction, also gets `@<kernel>.finish`, which
    combines them.

    The programs, whose launches are in the plan, and the optimizer rules are erased.

    Example: 64 elements are one work item.

    ```mlir
    // Before
    func.func private @twice(%x: tensor<64xf32>) -> tensor<64xf32>
        attributes {binade.kernel = #binade.schedule<elementwise>} {
      %y = binade.add %x, %x : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
      return %y : tensor<64xf32>
    }
    ```

    ```mlir
    // After
    func.func private @twice.items(
        %x: memref<64xf32>, %y: memref<64xf32>, %begin: index, %end: index) {
      %c1 = arith.constant 1 : index
      scf.for %item = %begin to %end step %c1 {
        %c0 = arith.constant 0 : index
        %c64 = arith.constant 64 : index
        %c16 = arith.constant 16 : index
        scf.for %i = %c0 to %c64 step %c16 {
          %0 = vector.load %x[%i] : memref<64xf32>, vector<16xf32>
          %1 = arith.addf %0, %0 : vector<16xf32>
          vector.store %1, %y[%i] : memref<64xf32>, vector<16xf32>
        }
      }
      return
    }
    ```

    Requires: `binade-form-kernels`. Run after the plan has been read from the module.

    Preserves: all roundings. Sums have an order that depends neither on the number of
    threads nor on the width of the processor's vectors.
  }];
  let dependentDialects = [
      "::mlir::arith::ArithDialect",
      "::mlir::func::FuncDialect", "::mlir::math::MathDialect",
      "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
      "::mlir::vector::VectorDialect"];
}

def EmitGpuKernelsPass : Pass<"binade-emit-gpu-kernels", "::mlir::ModuleOp"> {
  let summary = "Lower kernels to kernels of the gpu dialect";
  let description = [{
    Replaces every function with the attribute `binade.kernel` by a kernel
    `@<kernel>.items` in the `gpu.module` `@kernels`. Its arguments are the operands and
    results of the kernel as memrefs, and a workspace where the kernel needs one. Block
    and grid size are `known_block_size` and `known_grid_size`. A kernel with partial
    results also gets `@<kernel>.finish`.

    The programs, whose launches are in the plan, and the optimizer rules are erased.

    Example: a team of 16 threads computes 4 elements per thread; the other teams of the
    block have nothing to compute.

    ```mlir
    // Before
    func.func private @twice(%x: tensor<64xf32>) -> tensor<64xf32>
        attributes {binade.kernel = #binade.schedule<elementwise>} {
      %y = binade.add %x, %x : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
      return %y : tensor<64xf32>
    }
    ```

    ```mlir
    // After
    gpu.module @kernels {
      gpu.func @twice.items(
          %x: memref<64xf32> {llvm.align = 16 : i32, llvm.noalias},
          %y: memref<64xf32> {llvm.align = 16 : i32, llvm.noalias})
          kernel attributes {known_block_size = array<i32: 256, 1, 1>,
                             known_grid_size = array<i32: 1, 1, 1>} {
        %thread_id_x = gpu.thread_id x
        %c16 = arith.constant 16 : index
        %0 = arith.divui %thread_id_x, %c16 : index
        %c16_0 = arith.constant 16 : index
        %1 = arith.remui %thread_id_x, %c16_0 : index
        %block_id_x = gpu.block_id x
        %c16_1 = arith.constant 16 : index
        %2 = arith.muli %block_id_x, %c16_1 : index
        %3 = arith.addi %2, %0 : index
        %c1 = arith.constant 1 : index
        %4 = arith.cmpi ult, %3, %c1 : index
        scf.if %4 {
          %c4 = arith.constant 4 : index
          %5 = arith.muli %1, %c4 : index
          %6 = vector.load %x[%5] {alignment = 16} : memref<64xf32>, vector<4xf32>
          %7 = arith.addf %6, %6 : vector<4xf32>
          vector.store %7, %y[%5] {alignment = 16} : memref<64xf32>, vector<4xf32>
        }
        gpu.return
      }
    }
    ```

    Requires: `binade-form-kernels`. Run after the plan has been read from the module.

    Preserves: all roundings.
  }];
  let dependentDialects = [
      "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
      "::mlir::gpu::GPUDialect", "::mlir::math::MathDialect",
      "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
      "::mlir::vector::VectorDialect"];
}

def ExpandMathPass : Pass<"binade-expand-math"> {
  let summary = "Expand math functions of f32 and f64 to arithmetic";
  let description = [{
    A call of libm per element is slow, and its result depends on the version of the
    library.

    The pass replaces `math.exp`, `exp2`, `expm1`, `log`, `log2`, `log1p`, `tanh`, `erf`,
    `sin`, `cos`, `atan`, `rsqrt` and `powf` on f32 scalars and vectors of any shape by
    straight-line code of `arith` operations, `math.fma`, `math.sqrt` and the like, each of
    which is one instruction on a CPU with FMA. No fast-math flag is set, and a lane's
    result does not depend on the number of lanes. `powf` with a constant exponent of 1, 2,
    3, -1, 0.5 or -0.5 becomes multiplications, a division or a root. Of the functions of
    f64, `math.exp`, `log` and `powf` are replaced, which optimizers apply to scalars. Other
    operations on f64, and those on tensors, are left alone.

    The largest errors over all inputs, in ulp (`docs/Math.md` describes the measurement):

    | exp  | exp2 | expm1 | log  | log2 | log1p | tanh | erf  | sin, cos | rsqrt | powf |
    |------|------|-------|------|------|-------|------|------|----------|-------|------|
    | 0.90 | 0.88 | 1.45  | 0.94 | 1.43 | 1.27  | 1.37 | 1.14 | 0.51     | 1.50  | 0.53 |

    Special values follow IEEE 754 and C. Subnormal inputs and results are within the same
    bounds.

    `math.exp`, `log`, `tanh`, `erf` and `erfc` with the attribute `binade.accuracy`, bf16 or
    f16, have shorter polynomials, whose errors are less than 1/14 ulp of that format. It is
    set where the result is rounded to the format (`binade-choose-accuracy`). `math.erfc`
    without it is left alone.

    Example:

    ```mlir
    // Before
    func.func @square(%x: vector<8xf32>) -> vector<8xf32> {
      %two = arith.constant dense<2.0> : vector<8xf32>
      %y = math.powf %x, %two : vector<8xf32>
      return %y : vector<8xf32>
    }
    ```

    ```mlir
    // After
    func.func @square(%x: vector<8xf32>) -> vector<8xf32> {
      %cst = arith.constant dense<2.0> : vector<8xf32>
      %0 = arith.mulf %x, %x : vector<8xf32>
      return %0 : vector<8xf32>
    }
    ```

    Requires: nothing.

    Preserves: the functions within the errors above.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def ExpandFloatCastsPass : Pass<"binade-expand-float-casts"> {
  let summary = "Expand casts of narrow floats to integer arithmetic";
  let description = [{
    The instruction of x86-64 that rounds f32 to bf16 flushes subnormals to zero, and CPUs
    have no instructions for 8-bit formats.

    The pass replaces these casts, on scalars and vectors of any shape:

    - `arith.truncf` from f32 to bf16, and `arith.extf` from bf16 to f32 or f64. Rounding
      is to nearest, ties to even; subnormals are kept; a NaN becomes the quiet NaN 0x7fc0
      with its sign.
    - `arith.truncf` from f64 to bf16 or f16, by way of an f32 that is rounded to odd, so
      that the value is rounded only once.
    - Casts between f32 and formats of 8 bits or less. A clamp to the largest finite value
      of the format before such a cast is merged into it.

    Casts between f16 and f32 and between f32 and f64 stay: they are exact or round once in
    hardware. So does an `arith.truncf` with another rounding mode than `to_nearest_even`,
    and a cast between f32 and a format in `keep`.

    Example:

    ```mlir
    // Before
    func.func @widen(%x: vector<16xbf16>) -> vector<16xf32> {
      %y = arith.extf %x : vector<16xbf16> to vector<16xf32>
      return %y : vector<16xf32>
    }
    ```

    ```mlir
    // After
    func.func @widen(%x: vector<16xbf16>) -> vector<16xf32> {
      %0 = arith.bitcast %x : vector<16xbf16> to vector<16xi16>
      %1 = arith.extui %0 : vector<16xi16> to vector<16xi32>
      %cst = arith.constant dense<16> : vector<16xi32>
      %2 = arith.shli %1, %cst : vector<16xi32>
      %3 = arith.bitcast %2 : vector<16xi32> to vector<16xf32>
      return %3 : vector<16xf32>
    }
    ```

    Requires: nothing. On GPUs, run after `binade-select-conversions`.

    Preserves: every value, except for the payload of NaNs.
  }];
  let options = [
      ListOption<"keepFormats", "keep-formats", "std::string",
                 "Formats that the target itself converts from and to f32, such as bf16 "
                 "or f8E4M3FN.">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

#endif // BINADE_CONVERSION_PASSES_TD
