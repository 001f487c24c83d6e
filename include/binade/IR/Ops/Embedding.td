//===- Embedding.td - rows of tables --------------------------------------===//

#ifndef BINADE_IR_OPS_EMBEDDING_TD
#define BINADE_IR_OPS_EMBEDDING_TD

include "binade/IR/Ops/Base.td"

def Binade_GatherOp : Binade_PrecisionOp<"gather", "Clear", [
    Pure, InferTypeOpAdaptorWithIsCompatible,
    DeclareOpInterfaceMethods<PrecisionOpInterface, ["getOperandRole"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "getIndexRange",
                               "buildWithoutElements"]>]> {
  let summary = "rows of a table by index";
  let description = [{
    `y[i..., :] = table[indices[i...], :]`. Negative indices count from the end;
    an index outside [-rows, rows) is an error at run time.

    - (C1) `table` has rank of at least 1; the result's shape is that of `indices`
      followed by that of one row.
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
  let summary = "gradient of gather: rows added up by index";
  let description = [{
    `dtable[r, :] = sum of gradient[i, :] over indices[i] = r`, in order of i, f32
    sums; the table's shape is the result's. The gradient of `gradient` is a gather.
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
  let summary = "the same integers, after a look at their range";
  let description = [{
    An element outside [`low`, `high`) other than `ignored` is an error at run
    time. Ops that compare with an index, instead of reading memory at it,
    decompose into this.
  }];
  let arguments = (ins IntegerTensor:$x, I64Attr:$low, I64Attr:$high,
                       OptionalAttr<I64Attr>:$ignored);
  let results = (outs IntegerTensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif // BINADE_IR_OPS_EMBEDDING_TD
