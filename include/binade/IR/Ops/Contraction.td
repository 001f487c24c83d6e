//===- Contraction.td - matrix products -----------------------------------===//

#ifndef BINADE_IR_OPS_CONTRACTION_TD
#define BINADE_IR_OPS_CONTRACTION_TD

include "binade/IR/Ops/Base.td"

def Binade_MatmulOp : Binade_PrecisionOp<"matmul", "Allow", [
    Pure, InferTypeOpAdaptorWithIsCompatible,
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["countProducts", "getOperandFormat",
                               "getSummedAxis", "findFallback"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "getRows", "decompose",
                               "buildWithoutElements"]>]> {
  let summary = "batched matrix product, optionally with a bias";
  let description = [{
    `lhs * rhs` over the last two axes, optionally transposing either side
    first, so that the adjoint of a matmul is again a matmul and no transpose
    is ever materialized. `bias`, one number per column, is added to the sum
    before the one rounding to the result; it stays in f32.

    Products of numbers that `dequantize` decodes are products of codes: by
    `scaled_matmul` where the target has them, otherwise in bf16, which holds them
    exactly; scales of whole tensors multiply the sum.

    Constraints:

    - (C1) both sides have one rank of at least 2 and equal leading axes.
    - (C2) the contracted dimensions are equal.
    - (C3) `bias` has rank 1 and the length of the result's last axis.

    Example:

    ```mlir
    %y = binade.matmul %x, %w, %b {transpose_rhs}
       : (tensor<8x64xf32>, tensor<32x64xf32>, tensor<32xf32>) -> tensor<8x32xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$lhs, FloatTensor:$rhs,
                       Optional<FloatTensor>:$bias,
                       UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$y);
}

def Code8Tensor : StaticShapeTensorOf<[F8E4M3FN, F8E5M2]>;

def Binade_ScaledMatmulOp : Binade_Op<"scaled_matmul", [
    Pure, NotDifferentiable,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "getRows"]>]> {
  let summary = "batched matrix product of FP8 codes with scales";
  let description = [{
    `y[.., i, j] = round(lhs_scale rhs_scale sum over l of lhs[.., i, l] rhs[.., j, l])`:
    what is summed lies along the rows of both sides, as matrix units want it.

    With `block`, of m rows of `lhs`, n rows of `rhs` and k summands, there are scales
    for each m (n) rows and k summands of a side. The sum of each k products, in f32, is
    multiplied by both of its scales, and these are added up in f32. Scales lie as
    cuBLASLt reads them: where each row has its own, scales of neighbouring rows follow
    one another, `[summands / k, rows]`; otherwise those of neighbouring summands do,
    `[rows / m, summands / k]`, and behind them there may be more, which are not read.

    Constraints:

    - (C1) the three have one rank of at least 2 and equal leading axes.
    - (C2) the last axes of both sides are equal, and the result has a row for each
      row of `lhs` and a column for each row of `rhs`.
    - (C3) `block` has three positive numbers, and the sides rank 2.
    - (C4) scales are scalars without `block`, and otherwise have its shape.

    Example:

    ```mlir
    %y = binade.scaled_matmul %x, %x_scale, %w, %w_scale
       : (tensor<8x64xf8E4M3FN>, tensor<f32>, tensor<32x64xf8E4M3FN>, tensor<f32>)
         -> tensor<8x32xbf16>
    %z = binade.scaled_matmul %a, %a_scales, %b, %b_scales {block = array<i64: 1, 128, 128>}
       : (tensor<8x512xf8E4M3FN>, tensor<4x8xf32>, tensor<384x512xf8E4M3FN>, tensor<3x4xf32>)
         -> tensor<8x384xbf16>
    ```
  }];
  let arguments = (ins Code8Tensor:$lhs, StaticF32Tensor:$lhs_scale,
                       Code8Tensor:$rhs, StaticF32Tensor:$rhs_scale,
                       OptionalAttr<DenseI64ArrayAttr>:$block);
  let results = (outs FloatTensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // BINADE_IR_OPS_CONTRACTION_TD
