//===- Loss.td - losses ---------------------------------------------------===//

#ifndef BINADE_IR_OPS_LOSS_TD
#define BINADE_IR_OPS_LOSS_TD

include "binade/IR/Ops/Base.td"

def Binade_CrossEntropyOp : Binade_PrecisionOp<"cross_entropy", "Deny", [
    Pure, InfersTypes,
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["getResultFormat", "getOperandRole",
                               "ignoresMasked"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "getIndexRange", "getRows",
                               "decompose"]>]> {
  let summary = "cross-entropy of each row of logits against its label";
  let description = [{
    For row i with label t: `losses[i] = logarithm[i] - (logits[i, t] - maximum[i])`, where
    `maximum` is the largest logit of the row and `logarithm` the logarithm of the sum of
    exponentials of `logits - maximum`. The loss is 0 where t is `ignore_index`. `maximum +
    logarithm` is never formed: next to a large logit it would lose the digits of a small
    loss. The mean over the labels that are not ignored is `reduce_sum` times
    `label_weight`.

    All arithmetic is f32, and so are the results. A NaN in a row gives a NaN loss. A label
    outside [0, classes), other than `ignore_index`, is an error at run time. Without rows
    the results are empty.

    Constraints:

    - (C1) `logits` is [rows, classes], `labels` [rows].

    Example:

    ```mlir
    %losses, %maximum, %logarithm = binade.cross_entropy %logits, %labels {ignore_index = -100}
       : (tensor<8x10xbf16>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins FloatTensor:$logits, IntegerTensor:$labels,
                       I64Attr:$ignore_index, Binade_PrecisionArg:$precision);
  let results = (outs StaticF32Tensor:$losses, StaticF32Tensor:$maximum,
                      StaticF32Tensor:$logarithm);
}

def Binade_CrossEntropyGradOp : Binade_PrecisionOp<"cross_entropy_grad", "Deny", [
    Pure, InfersTypes,
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["getOperandFormat", "getOperandRole"]>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "getIndexRange", "getRows",
                               "decompose"]>,
    NotDifferentiable]> {
  let extraClassDeclaration = "Linearity getLinearity() { return Linearity::First; }";
  let summary = "gradient of cross_entropy with respect to the logits";
  let description = [{
    `dlogits[i, j] = gradient[i] (exp((logits[i, j] - maximum[i]) - logarithm[i]) - [j =
    labels[i]])`, and 0 where the label is `ignore_index`. All arithmetic is f32; the result
    is rounded once. A label out of range is an error at run time.

    Constraints:

    - (C1) All operands but `logits` have one entry per row of `logits`.

    Example:

    ```mlir
    %d = binade.cross_entropy_grad %dy, %logits, %labels, %maximum, %logarithm
       {ignore_index = -100}
       : (tensor<8xf32>, tensor<8x10xbf16>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>)
         -> tensor<8x10xbf16>
    ```
  }];
  let arguments = (ins StaticF32Tensor:$gradient, FloatTensor:$logits,
                       IntegerTensor:$labels, StaticF32Tensor:$maximum,
                       StaticF32Tensor:$logarithm, I64Attr:$ignore_index, Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$dlogits);
}

def Binade_LabelWeightOp : Binade_Op<"label_weight", [
    Pure, InferTypeOpAdaptor,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>,
    NotDifferentiable]> {
  let summary = "reciprocal of the number of labels that are not ignored";
  let description = [{
    The result is f32. It is infinite if every label is `ignore_index`, also for empty
    `labels`: then their mean loss, 0 times this, is NaN, as in PyTorch. The op has no
    gradient.

    Constraints:

    - (C1) `labels` has rank 1.

    Example:

    ```mlir
    %w = binade.label_weight %labels {ignore_index = -100} : (tensor<8xi64>) -> tensor<f32>
    ```
  }];
  let arguments = (ins IntegerTensor:$labels, I64Attr:$ignore_index);
  let results = (outs F32Scalar:$weight);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif // BINADE_IR_OPS_LOSS_TD
