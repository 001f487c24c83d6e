//===- Exchange.td - sums over the ranks of a group -----------------------===//

#ifndef BINADE_IR_OPS_EXCHANGE_TD
#define BINADE_IR_OPS_EXCHANGE_TD

include "binade/IR/Ops/Base.td"
include "binade/IR/Ops/ExchangeEnums.td"

// Result i is computed in the memory of operand i.
def ResultsInPlace : NativeOpTrait<"ResultsInPlace"> {
  let cppNamespace = "::mlir::binade";
}

def Binade_ExchangeOp : Binade_Op<"exchange", [
    Pure, NotDifferentiable, AttrSizedOperandSegments, ResultsInPlace,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule"]>]> {
  let summary = "sums of gradients over all ranks of a group";
  let description = [{
    Each rank of a group executes the same step on other batches. The op is where they
    agree: `gradients` become their sums over all ranks, and `magnitudes`, which are not
    negative, their maxima, elementwise; a NaN is larger than infinity, and that larger
    than any number. In a group of one, results are the operands, rounded as `format` says.

    Gradients are in the order in which they are complete. `buckets` has the number of
    gradients of each bucket: a bucket is exchanged as soon as its last gradient is
    complete, during the rest of the backward pass. The gradients of a bucket are adjacent in memory.

    `format` is the format in which gradients travel: `f32`, whose order of additions the
    transport chooses; `bf16` or `e4m3`, which is rounded to once per rank, and then summed
    in f32 in the order of the ranks; or `exact`, a fixed-point sum that does not depend on
    any order. With `exact`, `sums` has an operand for each bucket: the fixed-point sums of
    the batches before, which `exchange_add` made. The gradients are added to these.

    `rng` is the state of the random generator, which ranks have advanced to their own
    batches. The result is the state of the last batch of the step, on all ranks.

    Constraints:

    - (C1) Results are gradients, magnitudes and generator, of the operands' types.
    - (C2) `buckets` adds up to the number of gradients and has no 0.
    - (C3) There is one of `sums` for each bucket with `exact`, otherwise none.

    Example:

    ```mlir
    %sum, %amax = binade.exchange f32 gradients(%g) magnitudes(%m) {buckets = array<i64: 1>}
       : (tensor<8x64xf32>, tensor<f32>) -> (tensor<8x64xf32>, tensor<f32>)
    ```
  }];
  let arguments = (ins Binade_ExchangeFormat:$format,
                       Variadic<StaticF32Tensor>:$gradients,
                       Variadic<StaticF32Tensor>:$magnitudes,
                       Optional<RngTensor>:$rng,
                       Variadic<StaticShapeTensorOf<[I32]>>:$sums,
                       DenseI64ArrayAttr:$buckets);
  let results = (outs Variadic<NumberTensor>:$exchanged);
  let assemblyFormat = [{
    $format (`gradients` `(` $gradients^ `)`)? (`magnitudes` `(` $magnitudes^ `)`)?
    (`rng` `(` $rng^ `)`)? (`sums` `(` $sums^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// The gradients of bucket `index`.
    OperandRange getBucket(unsigned index);
    unsigned getNumBuckets() { return getBuckets().size(); }
    /// The sums of the gradients, the maxima of the magnitudes, and the state of
    /// the generator; null without one.
    ResultRange getSummed();
    ResultRange getLargest();
    Value getLast();
  }];
  let hasVerifier = 1;
}

def Binade_ExchangeAddOp : Binade_Op<"exchange_add", [
    Pure, NotDifferentiable, ResultsInPlace,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule"]>]> {
  let summary = "adds gradients to a fixed-point sum";
  let description = [{
    Adds the gradients of a batch to `sum`, a fixed-point sum that does not depend on the
    order of additions. For `exchange exact`.

    The tensors follow each other at multiples of 16 elements; `n` is the position after
    the last, and blocks are 128 consecutive positions. `sum` has `3 n` digits and a number
    for each block, 0 at the start. Positions of bits count from that of 2^-149, and a digit
    has 16 of them. With the largest magnitude that a block has seen, whose highest bit is in
    digit T, at least 2, the block keeps digits T, T - 1 and T - 2 of every value, which are
    bits of its magnitude with its sign; lower digits are dropped. So what is kept of a
    value depends on the largest magnitude only. The number of the block is T - 1; it is 17
    if the block has seen a value that is not finite. Then the digits count NaNs, infinities
    and negative infinities.

    Constraints:

    - (C1) `sum` has the size that follows from the gradients.

    Example:

    ```mlir
    %after = binade.exchange_add %sum, %g
       : (tensor<1540xi32>, tensor<8x64xf32>) -> tensor<1540xi32>
    ```
  }];
  let arguments = (ins StaticShapeTensorOf<[I32]>:$sum,
                       Variadic<StaticF32Tensor>:$gradients);
  let results = (outs StaticShapeTensorOf<[I32]>:$after);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    /// The type of the sum of `gradients`.
    static RankedTensorType getSumType(ValueRange gradients);
  }];
  let hasVerifier = 1;
}

#endif // BINADE_IR_OPS_EXCHANGE_TD
