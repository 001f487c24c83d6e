//===- Attention.td - scaled dot-product attention ------------------------===//

#ifndef BINADE_IR_OPS_ATTENTION_TD
#define BINADE_IR_OPS_ATTENTION_TD

include "binade/IR/Ops/Base.td"

// `arguments` of an attention op after its own operands: what changes the scores and the
// probabilities. The operands are named, because most attention has none of the optional
// ones.
defvar AttentionExtras = (ins
    Variadic<FloatTensor>:$biases, Optional<BoolTensor>:$mask, Optional<RngTensor>:$rng,
    F64Attr:$scale, UnitAttr:$causal,
    DefaultValuedAttr<F64Attr, "0.0">:$softcap,
    DefaultValuedAttr<F64Attr, "-INFINITY">:$fill,
    UnitAttr:$zero_hidden, UnitAttr:$zero_nan,
    DefaultValuedAttr<F64Attr, "0.0">:$ratio,
    DefaultValuedAttr<I64Attr, "0">:$stream,
    Binade_PrecisionArg:$precision);

class Binade_AttentionLikeOp<string mnemonic, list<string> precisionMethods,
                             list<Trait> traits>
    : Binade_PrecisionOp<mnemonic, "Allow", !listconcat(traits, [
          Pure, AttrSizedOperandSegments, InfersTypes,
          DeclareOpInterfaceMethods<PrecisionOpInterface, precisionMethods>,
          DeclareOpInterfaceMethods<KernelOpInterface,
                                    ["getSchedule", "decompose"]>])> {
  code extras = [{
    /// Whether scores are changed by nothing but the scale and the causal mask, and
    /// probabilities not at all.
    bool isPlain() {
      return getBiases().empty() && !getMask() && !getRng() &&
             getSoftcap().isZero() && !getZeroHidden() && !getZeroNan();
    }
    /// Whether the target of the module computes the op by one kernel.
    bool hasWholeKernel();
  }];
  let extraClassDeclaration = extras;
  let hasVerifier = 1;
}

def Binade_AttentionOp : Binade_AttentionLikeOp<"attention",
    ["countMacs", "getOperandFormat", "getResultFormat", "ignoresMasked", "findFallback"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>,
     DeclareOpInterfaceMethods<TrainingOpInterface>]> {
  let summary = "scaled dot-product attention";
  let description = [{
    `y = dropout(softmax(scores)) value` over the last two axes, with
    `scores = mask(cap(scale query key^T) + biases)` (Vaswani et al., 2017). `lse` is the
    logarithm of the sum of exponentials of the scores of each query; the gradient recomputes
    the probabilities. Heads may share keys and values (grouped-query attention, Ainslie et
    al., 2023): then the last leading axis of `key` and `value` has size 1.

    - `softcap`, unless it is 0, replaces the scaled product s by `softcap tanh(s / softcap)`.
    - `biases` are added up from the first to the last, and the sum is added to the scores.
      Each is broadcast along its axes of size 1. Masks that are added, and relative
      positions, are biases.
    - Where `mask` is false, broadcast likewise, the score is `fill`, minus infinity by
      default.
    - With `causal` the score is minus infinity where the position of the key is greater
      than that of the query.
    - With `rng`, probabilities are dropped as by `dropout` with `ratio` and `stream` of a
      tensor with the shape of the scores. No mask is stored: the gradient draws it again. In
      evaluation nothing is dropped (`TrainingOpInterface`).

    If all scores of a query are minus infinity, its probabilities are NaN, as those of
    `softmax`; with `zero_hidden` they are 0. With `zero_nan`, other probabilities that are
    NaN are replaced by 0, too; the gradients of query and keys are still NaN then.

    Matmuls multiply in the format of the operands and accumulate in f32. Scores, biases and
    softmax are f32. Probabilities are rounded to the format of the operands before the second
    matmul, after dropout, and the result is rounded once. A NaN in a query, in a key or in a
    value makes the rows that it takes part in NaN, unless a mask hides the query or the key,
    or `zero_nan` is set. If an axis is empty, the result has no elements or, without keys,
    is 0.

    Constraints:

    - (C1) `query` [..., N, D], `key` [..., K, D] and `value` [..., K, E] have equal
      leading axes, except that the last of them may be 1 in both `key` and `value`; the
      result is [..., N, E] and `lse` [..., N].
    - (C2) `causal` needs N = K.
    - (C3) `biases` and `mask` have the rank of `query`; each axis has size 1, or that of the
      scores [..., N, K].
    - (C4) `ratio` and `stream` are as in `dropout`, and 0 without `rng`. `softcap` is finite
      and at least 0.

    Example:

    ```mlir
    %y, %lse = binade.attention %q, %k, %v {scale = 0.125, causal}
       : (tensor<4x32x64xbf16>, tensor<4x32x64xbf16>, tensor<4x32x64xbf16>)
         -> (tensor<4x32x64xbf16>, tensor<4x32xf32>)
    ```

    Example: relative positions, padding and dropout.

    ```mlir
    %y, %lse = binade.attention %q, %k, %v biases(%positions) mask(%padding) rng(%rng)
        {scale = 0.125, ratio = 0.1, stream = 3 : i64}
       : (tensor<2x4x32x64xbf16>, tensor<2x4x32x64xbf16>, tensor<2x4x32x64xbf16>,
          tensor<1x4x32x32xf32>, tensor<2x1x1x32xi1>, tensor<2xi64>)
         -> (tensor<2x4x32x64xbf16>, tensor<2x4x32xf32>)
    ```
  }];
  let arguments = !con((ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value),
                       AttentionExtras);
  let results = (outs FloatTensor:$y, StaticF32Tensor:$lse);
  let builders = [OpBuilder<(ins "::mlir::Value":$query, "::mlir::Value":$key,
                                 "::mlir::Value":$value,
                                 "const ::llvm::APFloat &":$scale, "bool":$causal)>];
  let assemblyFormat = [{
    $query `,` $key `,` $value (`biases` `(` $biases^ `)`)? (`mask` `(` $mask^ `)`)?
    (`rng` `(` $rng^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = extras # [{
    /// Copies biases, mask, dropout and attributes of `other`.
    void copyExtras(AttentionOp other);
  }];
}

def Binade_AttentionGradOp : Binade_AttentionLikeOp<"attention_grad",
    ["countMacs", "getOperandFormat", "getResultFormat", "findFallback"],
    [NotDifferentiable]> {
  let summary = "gradients of attention with respect to query, key, value and biases";
  let description = [{
    Recomputes the probabilities `p = exp(scores - lse)`, or, if biases or `fill` may be so
    large that `lse` is not exact enough, `p = softmax(scores)`. With `d = sum(gradient y)`
    per query and `drop` for dropout and its gradient:
    `dscores = p (drop(gradient value^T) - d)`, `dvalue = drop(p)^T gradient`, and the gradient
    of a bias is the sum of `dscores` over the axes along which it is broadcast. With
    `dproducts = scale cap'(dscores)`, `dquery = dproducts key` and
    `dkey = dproducts^T query`. Where `mask` is false, `dscores` is 0. Gradients of keys and
    values are summed over the heads that share a key. Matmuls multiply in the format of the
    operands and accumulate in f32; `p` and `dproducts` are f32 and rounded to that format
    before they are multiplied. What each head adds to a shared gradient may be rounded to that
    format, too. Gradients of biases are f32 and rounded once.

    Constraints:

    - (C1) Shapes are those of `attention`; `gradient` has the shape of `y`, and each result
      that of its operand.
    - (C2) Attributes are as in `attention`.

    Example:

    ```mlir
    %dq, %dk, %dv = binade.attention_grad %dy, %q, %k, %v, %y, %lse {scale = 0.125, causal}
       : (tensor<4x32x64xbf16>, tensor<4x32x64xbf16>, tensor<4x32x64xbf16>,
          tensor<4x32x64xbf16>, tensor<4x32x64xbf16>, tensor<4x32xf32>)
         -> (tensor<4x32x64xbf16>, tensor<4x32x64xbf16>, tensor<4x32x64xbf16>)
    ```
  }];
  let arguments = !con((ins FloatTensor:$gradient, FloatTensor:$query,
                            FloatTensor:$key, FloatTensor:$value, FloatTensor:$y,
                            StaticF32Tensor:$lse),
                       AttentionExtras);
  let results = (outs FloatTensor:$dquery, FloatTensor:$dkey, FloatTensor:$dvalue,
                      Variadic<FloatTensor>:$dbiases);
  let assemblyFormat = [{
    $gradient `,` $query `,` $key `,` $value `,` $y `,` $lse
    (`biases` `(` $biases^ `)`)? (`mask` `(` $mask^ `)`)? (`rng` `(` $rng^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
}

#endif // BINADE_IR_OPS_ATTENTION_TD
