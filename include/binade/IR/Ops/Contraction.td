//===- Contraction.td - matmuls -------------------------------------------===//

#ifndef BINADE_IR_OPS_CONTRACTION_TD
#define BINADE_IR_OPS_CONTRACTION_TD

include "binade/IR/Ops/Base.td"

def Binade_MatmulOp : Binade_PrecisionOp<"matmul", "Allow", [
    Pure, InfersTypes,
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["countMacs", "getOperandFormat",
                               "getSummedAxis", "findFallback"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "getRows", "decompose",
                               "buildWithoutElements"]>]> {
  let extraClassDeclaration =
      "Linearity getLinearity() { return Linearity::Product; }";
  let summary = "batched matmul, optionally with a bias";
  let description = [{
    `lhs rhs + bias` over the last two axes. `transpose_lhs` and `transpose_rhs` transpose
    an operand first, so that the adjoint of a matmul is again a matmul. The bias has one
    element per column, in f32 or a 16-bit format.

    Elements are multiplied in the format of the operands. The sums are accumulated in
    `accumulate` of the decision, f32 by default, in an order that the library chooses; the
    bias is added, and the result is rounded once to its format. NaN and infinities
    propagate as in the formula. If the contracted axis is empty, the result is the bias, or
    0.

    If an operand is the result of `dequantize`, the quantized elements are multiplied: by
    `scaled_matmul` where the target supports their formats, otherwise in bf16, which holds
    them exactly. The scale of a whole tensor multiplies the sum. A decision with
    `accumulation` becomes a `scaled_matmul` when formats are materialized.

    Constraints:

    - (C1) Both sides have one rank of at least 2 and equal leading axes.
    - (C2) The contracted axes have equal lengths.
    - (C3) `bias` has rank 1 and the length of the last axis of the result.

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
  let summary = "batched matmul of FP8 operands with scales";
  let description = [{
    `y[..., i, j] = lhs_scale rhs_scale sum over l of lhs[..., i, l] rhs[..., j, l] +
    bias[j]`: the contracted axis is the last one of both sides, as matrix units need it.
    Sums are f32; the bias, if there is one, is added in f32, and the result is rounded once
    to its format. A NaN in an operand or in a scale makes the elements that it takes part in
    NaN.

    Without `block`, each side has one scale. `block = [m, n, k]` gives a scale to each
    block of m rows of `lhs` (n rows of `rhs`) and k elements of the contracted axis. The
    sum over the k products of a block, in f32, is multiplied by both scales, and these
    products are added in f32. Scales are stored as cuBLASLt reads them: [K / k, rows] if
    each row has its own scales, otherwise [rows / m, K / k], each rounded up. There may be
    more scales at the end, which are not read.

    With `accumulation`, the products of the elements are added as there, without scales;
    with `block`, each block of k terms has an accumulator and a sum of its own. s is the
    product of both scales, rounded to f32. A sum times s is added to the total, which is 0
    at first, by one fused multiply-add in f32 for each block, or one without `block`; then
    the bias is added in f32, and the result is rounded to its format. The order of all
    operations is thus defined, and so are all bits.

    The op has no gradient: it exists only after differentiation.

    Constraints:

    - (C1) Operands and result have one rank of at least 2 and equal leading axes.
    - (C2) The last axes of both sides are equal. The result has a row for each row of
      `lhs` and a column for each row of `rhs`.
    - (C3) `block` has three positive entries, and then the sides have rank 2.
    - (C4) Scales are scalars without `block`, and otherwise have its shape.
    - (C5) `bias`, in f32 or a 16-bit format, has rank 1 and the length of the last axis of
      the result.

    Example:

    ```mlir
    %y = binade.scaled_matmul %x, %x_scale, %w, %w_scale
       : (tensor<8x64xf8E4M3FN>, tensor<f32>, tensor<32x64xf8E4M3FN>, tensor<f32>)
         -> tensor<8x32xbf16>
    %z = binade.scaled_matmul %a, %a_scales, %b, %b_scales {block = array<i64: 1, 128, 128>}
       : (tensor<8x512xf8E4M3FN>, tensor<4x8xf32>, tensor<384x512xf8E4M3FN>, tensor<3x4xf32>)
         -> tensor<8x384xbf16>
    %h = binade.scaled_matmul %x, %x_scale, %w, %w_scale
       {accumulation = #binade.accumulation<bits = 14, step = 32, promote = 0>}
       : (tensor<8x64xf8E4M3FN>, tensor<f32>, tensor<32x64xf8E4M3FN>, tensor<f32>)
         -> tensor<8x32xbf16>
    ```
  }];
  let arguments = (ins Code8Tensor:$lhs, StaticF32Tensor:$lhs_scale,
                       Code8Tensor:$rhs, StaticF32Tensor:$rhs_scale,
                       Optional<ComputedTensor>:$bias,
                       OptionalAttr<DenseI64ArrayAttr>:$block,
                       OptionalAttr<Binade_AccumulationAttr>:$accumulation);
  let results = (outs ComputedTensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // BINADE_IR_OPS_CONTRACTION_TD
