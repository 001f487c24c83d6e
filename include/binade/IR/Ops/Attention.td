//===- Attention.td - scaled dot-product attention ------------------------===//

#ifndef BINADE_IR_OPS_ATTENTION_TD
#define BINADE_IR_OPS_ATTENTION_TD

include "binade/IR/Ops/Base.td"

def Binade_AttentionOp : Binade_PrecisionOp<"attention", "Allow", [
    Pure, InfersTypes,
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["countMacs", "getResultFormat", "ignoresMasked",
                               "findFallback"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>]> {
  let summary = "scaled dot-product attention";
  let description = [{
    `y = softmax(scale query key^T + mask) value` over the last two axes (Vaswani et al.,
    2017). With `causal` the mask is minus infinity where the position of the key is greater
    than that of the query, otherwise there is none. `lse` is the logarithm of the sum of
    exponentials of the scores of each query; the gradient recomputes the probabilities from
    it. Heads may share keys and values (grouped-query attention, Ainslie et al., 2023): then
    the last leading axis of `key` and `value` has size 1.

    Matmuls multiply in the format of the operands and accumulate in f32. Scores and softmax
    are f32. Probabilities are rounded to the format of the operands before the second
    matmul, and the result is rounded once. A NaN in a query, in a key or in a value makes
    the rows that it takes part in NaN. If an axis is empty, the result has no elements or,
    without keys, is 0.

    Constraints:

    - (C1) `query` [..., N, D], `key` [..., K, D] and `value` [..., K, E] have equal
      leading axes, except that the last of them may be 1 in both `key` and `value`; the
      result is [..., N, E] and `lse` [..., N].
    - (C2) `causal` needs N = K.

    Example:

    ```mlir
    %y, %lse = binade.attention %q, %k, %v {scale = 0.125, causal}
       : (tensor<4x32x64xbf16>, tensor<4x32x64xbf16>, tensor<4x32x64xbf16>)
         -> (tensor<4x32x64xbf16>, tensor<4x32xf32>)
    ```
  }];
  let arguments = (ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value,
                       F64Attr:$scale, UnitAttr:$causal,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$y, StaticF32Tensor:$lse);
}

def Binade_AttentionGradOp : Binade_PrecisionOp<"attention_grad", "Allow", [
    Pure, InfersTypes,
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["countMacs", "getOperandFormat", "findFallback"]>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>,
    NotDifferentiable]> {
  let summary = "gradients of attention with respect to query, key and value";
  let description = [{
    Recomputes the probabilities `p = exp(scores - lse)`. With `d = sum(gradient y)` per
    query: `dscores = p (gradient value^T - d)`, `dquery = scale dscores key`,
    `dkey = scale dscores^T query`, `dvalue = p^T gradient`, summed over the heads that share
    a key. Matmuls multiply in the format of the operands and accumulate in f32; `p` and
    `dscores` are f32 and rounded to that format before they are multiplied. What each head
    adds to a shared gradient may be rounded to that format, too.

    Constraints:

    - (C1) Shapes are those of `attention`; `gradient` has the shape of `y`, and each result
      that of its operand.
    - (C2) `causal` needs as many queries as keys.

    Example:

    ```mlir
    %dq, %dk, %dv = binade.attention_grad %dy, %q, %k, %v, %y, %lse {scale = 0.125, causal}
       : (tensor<4x32x64xbf16>, tensor<4x32x64xbf16>, tensor<4x32x64xbf16>,
          tensor<4x32x64xbf16>, tensor<4x32x64xbf16>, tensor<4x32xf32>)
         -> (tensor<4x32x64xbf16>, tensor<4x32x64xbf16>, tensor<4x32x64xbf16>)
    ```
  }];
  let arguments = (ins FloatTensor:$gradient, FloatTensor:$query,
                       FloatTensor:$key, FloatTensor:$value, FloatTensor:$y,
                       StaticF32Tensor:$lse, F64Attr:$scale, UnitAttr:$causal,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$dquery, FloatTensor:$dkey, FloatTensor:$dvalue);
}

#endif // BINADE_IR_OPS_ATTENTION_TD
