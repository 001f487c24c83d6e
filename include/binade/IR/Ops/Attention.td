//===- Attention.td - scaled dot-product attention ------------------------===//

#ifndef BINADE_IR_OPS_ATTENTION_TD
#define BINADE_IR_OPS_ATTENTION_TD

include "binade/IR/Ops/Base.td"

def Binade_AttentionOp : Binade_PrecisionOp<"attention", "Allow", [
    Pure, InferTypeOpAdaptorWithIsCompatible,
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["countProducts", "getResultFormat", "ignoresMasked",
                               "findFallback"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>]> {
  let summary = "scaled dot-product attention";
  let description = [{
    `softmax(scale query key^T + mask) value` over the last two axes (Vaswani et
    al., 2017). With `causal`, position i sees positions up to i + K - N (N
    queries, K keys). Scores and softmax are f32; probabilities are rounded to
    the compute format before the second product. `lse`, the logarithm of the sum
    of exponentials of each query's scores, is what the gradient remembers.

    Constraints:

    - (C1) `query` [..., N, D], `key` [..., K, D] and `value` [..., K, E] have equal
      leading axes; the result is [..., N, E].
    - (C2) `causal` needs N = K.
  }];
  let arguments = (ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value,
                       F64Attr:$scale, UnitAttr:$causal,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$y, StaticF32Tensor:$lse);
}

def Binade_AttentionGradOp : Binade_PrecisionOp<"attention_grad", "Allow", [
    Pure, InferTypeOpAdaptorWithIsCompatible,
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["countProducts", "getOperandFormat", "findFallback"]>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>,
    NotDifferentiable]> {
  let summary = "gradients of attention with respect to query, key and value";
  let description = [{
    Recomputes the probabilities p = exp(scores - lse). With d = sum(dy y) per
    query: dscores = p (dy value^T - d), dquery = scale dscores key, dkey = scale
    dscores^T query, dvalue = p^T dy.
  }];
  let arguments = (ins FloatTensor:$gradient, FloatTensor:$query,
                       FloatTensor:$key, FloatTensor:$value, FloatTensor:$y,
                       StaticF32Tensor:$lse, F64Attr:$scale, UnitAttr:$causal,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$dquery, FloatTensor:$dkey, FloatTensor:$dvalue);
}

#endif // BINADE_IR_OPS_ATTENTION_TD
