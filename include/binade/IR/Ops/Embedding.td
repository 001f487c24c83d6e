//===- Embedding.td - lookups in tables -----------------------------------===//

#ifndef BINADE_IR_OPS_EMBEDDING_TD
#define BINADE_IR_OPS_EMBEDDING_TD

include "binade/IR/Ops/Base.td"

def Binade_GatherOp : Binade_PrecisionOp<"gather", "Clear", [
    Pure, InfersTypes,
    DeclareOpInterfaceMethods<PrecisionOpInterface, ["getOperandRole"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "getIndexRange",
                               "buildWithoutElements"]>]> {
  let extraClassDeclaration = "Linearity getLinearity() { return Linearity::Joint; }";
  let summary = "lookup of rows of a table";
  let description = [{
    `y[i..., :] = table[indices[i...], :]`. Negative indices count from the end. An index
    outside [-rows, rows) is an error at run time. Elements are copied bit for bit. With
    empty `indices` the result is empty; a table without rows is an error if there are
    indices. The gradient of the table is `gather_grad`.

    Constraints:

    - (C1) `table` has a rank of at least 1. The shape of the result is that of `indices`,
      followed by that of one row.

    Example:

    ```mlir
    %y = binade.gather %table, %ids : (tensor<100x64xf32>, tensor<4x8xi64>) -> tensor<4x8x64xf32>
    ```
  }];
  let arguments = (ins Tensor:$table, IntegerTensor:$indices,
                       Binade_PrecisionArg:$precision);
  let results = (outs Tensor:$y);
}

def Binade_GatherGradOp : Binade_PrecisionOp<"gather_grad", "Deny", [
    Pure,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "getIndexRange"]>]> {
  let extraClassDeclaration = [{
    Linearity getLinearity() { return Linearity::Joint; }
    bool sumsElements() { return true; }
  }];
  let summary = "gradient of gather: sums rows by index";
  let description = [{
    `dtable[r, :]` is the sum of `gradient[i, :]` over all i with `indices[i] = r`, in
    ascending order of i, and 0 if there is no such i. Sums are f32 and rounded once.
    Negative indices count from the end. An index outside [-rows, rows) is an error at run
    time. The type of the result says how many rows the table has. The gradient of
    `gradient` is a `gather`.

    Example:

    ```mlir
    %d = binade.gather_grad %dy, %ids : (tensor<4x8x64xf32>, tensor<4x8xi64>) -> tensor<100x64xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$gradient, IntegerTensor:$indices,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$dtable);
  let hasVerifier = 1;
}

def Binade_CheckIndexOp : Binade_Op<"check_index", [
    Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "getIndexRange"]>,
    NotDifferentiable]> {
  let summary = "checks the range of indices at run time";
  let description = [{
    The result equals the operand. An element outside [`low`, `high`), other than `ignored`,
    is an error at run time. Ops that compare an index with a position, instead of reading
    memory at it, decompose into this op. It has no gradient.

    Example:

    ```mlir
    %y = binade.check_index %labels {low = 0, high = 10, ignored = -100}
       : (tensor<8xi64>) -> tensor<8xi64>
    ```
  }];
  let arguments = (ins IntegerTensor:$x, I64Attr:$low, I64Attr:$high,
                       OptionalAttr<I64Attr>:$ignored);
  let results = (outs IntegerTensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif // BINADE_IR_OPS_EMBEDDING_TD
