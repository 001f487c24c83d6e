//===- Loss.td - losses ---------------------------------------------------===//

#ifndef BINADE_IR_OPS_LOSS_TD
#define BINADE_IR_OPS_LOSS_TD

include "binade/IR/Ops/Base.td"

def Binade_CrossEntropyOp : Binade_PrecisionOp<"cross_entropy", "Deny", [
    Pure, InferTypeOpAdaptorWithIsCompatible,
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["getResultFormat", "getOperandRole",
                               "ignoresMasked"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "getIndexRange", "getRows",
                               "decompose"]>]> {
  let summary = "cross-entropy of each row of logits against its label";
  let description = [{
    For row i with label t: `losses[i] = logarithm[i] - (logits[i, t] - maximum[i])`,
    `maximum` the largest logit and `logarithm` that of the sum of exponentials of
    `logits - maximum`; 0 where t is `ignore_index`. Their sum, the logarithm of the sum
    of exponentials, is never formed: beside a large logit f32 has no digits for a small
    loss. The mean over the labels that count is `reduce_sum` and `label_weight`.

    - (C1) `logits` [rows, classes], `labels` [rows].
    - A label outside [0, classes) other than `ignore_index` is an error at run time.
  }];
  let arguments = (ins FloatTensor:$logits, IntegerTensor:$labels,
                       I64Attr:$ignore_index, Binade_PrecisionArg:$precision);
  let results = (outs StaticF32Tensor:$losses, StaticF32Tensor:$maximum,
                      StaticF32Tensor:$logarithm);
}

def Binade_CrossEntropyGradOp : Binade_PrecisionOp<"cross_entropy_grad", "Deny", [
    Pure, InferTypeOpAdaptorWithIsCompatible,
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["getOperandFormat", "getOperandRole"]>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "getIndexRange", "getRows",
                               "decompose"]>,
    NotDifferentiable]> {
  let summary = "gradient of cross_entropy with respect to the logits";
  let description = [{
    `dlogits[i, j] = gradient[i] (exp((logits[i, j] - maximum[i]) - logarithm[i]) -
    [j = labels[i]])`, 0 where the label is ignored.

    - (C1) All operands but `logits` have one entry per row of it.
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
  let summary = "1 / number of labels that are not ignored";
  let description = [{
    Infinite when every label is ignored, so that their mean loss, 0 times this,
    is NaN, as in PyTorch.

    - (C1) `labels` has rank 1.
  }];
  let arguments = (ins IntegerTensor:$labels, I64Attr:$ignore_index);
  let results = (outs F32Scalar:$weight);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif // BINADE_IR_OPS_LOSS_TD
