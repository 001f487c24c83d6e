//===- Kernel.td - calls of kernels ---------------------------------------===//

#ifndef BINADE_IR_OPS_KERNEL_TD
#define BINADE_IR_OPS_KERNEL_TD

include "binade/IR/Ops/Base.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Binade_LaunchOp : Binade_Op<"launch", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one launch of a kernel";
  let description = [{
    A kernel is a private function of `binade` ops with `binade.kernel`, its schedule.
    Equal kernels are one function with many launches.

    Kernels over many tensors are written for one vector of elements (rank 1) and run
    over tensors of any shape. Such a launch names one kernel per segment; operands
    and results stand segment by segment, but for rank-0 results, which reduce over
    all segments and stand once, last.

    Example:

    ```mlir
    %y = binade.launch [@gelu_3](%x) : (tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins TypedArrayAttrBase<FlatSymbolRefAttr, "kernels">:$kernels,
                       Variadic<Tensor>:$operands);
  let results = (outs Variadic<Tensor>:$results);
  let assemblyFormat = [{
    $kernels `(` $operands `)` attr-dict `:` functional-type($operands, results)
  }];
}

def Binade_TileOp : Binade_Op<"tile", [
    Pure, IsolatedFromAbove,
    SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "the same ops on one piece after the other";
  let description = [{
    Runs its body `count` times. The first `slices` operands are cut into `count`
    equal pieces along their first axis, and the body sees one of each; it sees the
    other operands whole. Of what the body yields, the first `joins` values are the
    results' pieces along their first axis; the others are added up, from the first
    iteration to the last.

    Values inside exist for one piece only, which is the purpose: a matrix of
    attention scores or of logits never exists as a whole.

    Example: rows of `%x` times `%w`, and the sum of their squares.

    ```mlir
    %y, %sum = binade.tile 4 slices 1 joins 1 (%x, %w) {
    ^bb0(%piece: tensor<16x8xf32>, %all: tensor<8x8xf32>):
      ...
      binade.yield %rows, %squares : tensor<16x8xf32>, tensor<8xf32>
    } : (tensor<64x8xf32>, tensor<8x8xf32>) -> (tensor<64x8xf32>, tensor<8xf32>)
    ```

    Constraints:

    - (C1) `count` is at least 1, `slices` and `joins` count operands and results.
    - (C2) The body's arguments are the pieces' and the whole operands' types.
    - (C3) It yields the pieces' types of joined results and the others' types.
    - (C4) Results that are added up are f32.
  }];
  let arguments = (ins Variadic<Tensor>:$operands,
                       ConfinedAttr<I64Attr, [IntMinValue<1>]>:$count,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$slices,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$joins);
  let results = (outs Variadic<Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $count `slices` $slices `joins` $joins `(` $operands `)` $body attr-dict
    `:` functional-type($operands, results)
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The type of one of `count` pieces; null where the first axis does not
    /// divide.
    static RankedTensorType getPiece(Type type, int64_t count);
    Operation *getYield() { return getBody().front().getTerminator(); }
  }];
}

def Binade_YieldOp : Binade_Op<"yield", [
    Pure, Terminator, ReturnLike, HasParent<"TileOp">]> {
  let summary = "what a tile's body gives";
  let arguments = (ins Variadic<Tensor>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
  let builders = [OpBuilder<(ins), "">];
}

#endif // BINADE_IR_OPS_KERNEL_TD
