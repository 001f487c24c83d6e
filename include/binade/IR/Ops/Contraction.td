//===- Contraction.td - matrix products -----------------------------------===//

#ifndef BINADE_IR_OPS_CONTRACTION_TD
#define BINADE_IR_OPS_CONTRACTION_TD

include "binade/IR/Ops/Base.td"

def Binade_MatmulOp : Binade_PrecisionOp<"matmul", "Allow", [
    Pure, InferTypeOpAdaptorWithIsCompatible,
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["countProducts", "getOperandFormat",
                               "getSummedAxis"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "getRows", "decompose"]>]> {
  let summary = "batched matrix product, optionally with a bias";
  let description = [{
    `lhs * rhs` over the last two axes, optionally transposing either side
    first, so that the adjoint of a matmul is again a matmul and no transpose
    is ever materialized. `bias`, one number per column, is added to the sum
    before the one rounding to the result; it stays in f32.

    Products of numbers that `dequantize` decodes are products of codes in bf16, which
    holds them exactly; scales of whole tensors multiply the sum.

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

#endif // BINADE_IR_OPS_CONTRACTION_TD
