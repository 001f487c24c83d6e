//===- Kernel.td - kernel launches and tiles ------------------------------===//

#ifndef BINADE_IR_OPS_KERNEL_TD
#define BINADE_IR_OPS_KERNEL_TD

include "binade/IR/Ops/Base.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Binade_LaunchOp : Binade_Op<"launch", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "launch of a kernel";
  let description = [{
    A kernel is a private function with the attribute `binade.kernel`, the schedule of its
    loops. Equal kernels are one function with many launches. A launch has the operands and
    results of the function.

    A multi-tensor kernel is written for one vector of elements (rank 1) and launched on
    tensors of any shape. Such a launch names one kernel per segment; operands and results
    follow segment by segment. Results of rank 0 reduce over all segments; they occur once,
    at the end.

    Example:

    ```mlir
    func.func private @add_0(%x: tensor<8x64xf32>) -> tensor<8x64xf32>
        attributes {binade.kernel = #binade.schedule<elementwise>} {
      %y = binade.add %x, %x : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
      return %y : tensor<8x64xf32>
    }
    func.func @step(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
      %y = binade.launch [@add_0](%x) : (tensor<8x64xf32>) -> tensor<8x64xf32>
      return %y : tensor<8x64xf32>
    }
    ```
  }];
  let arguments = (ins TypedArrayAttrBase<FlatSymbolRefAttr, "list of kernels such as [@add_0]">:$kernels,
                       Variadic<Tensor>:$operands);
  let results = (outs Variadic<Tensor>:$results);
  let assemblyFormat = [{
    $kernels `(` $operands `)` attr-dict `:` functional-type($operands, results)
  }];
}

def Binade_TileOp : Binade_Op<"tile", [
    Pure, IsolatedFromAbove,
    SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "loop over pieces of the first axis";
  let description = [{
    Runs its body `count` times, one after the other. The first `slices` operands are cut
    into `count` equal pieces along their first axis, and the body reads one of each; it
    reads the other operands whole. The first `joins` yielded values are the pieces of the
    first `joins` results along their first axis. The other yielded values are added up, in
    f32 and from the first iteration to the last.

    If the axis has more elements than these pieces, a second region computes the remainder in
    the same way: of each `count * size + remainder` elements of an axis, a piece has `size`, and
    the last one `remainder`.

    Values inside the body exist for one piece only. So a matrix of attention scores or of
    logits never exists as a whole.

    Constraints:

    - (C1) `count` is at least 1; `slices` and `joins` do not exceed the number of operands
      and results.
    - (C2) The arguments of the body have the types of the pieces and of the whole operands.
    - (C3) It yields values of the types of the pieces of joined results, and of the other
      results.
    - (C4) Results that are added up are f32.
    - (C5) `remainder` is less than `size`, and there is a second region if it is not 0.

    Example: the rows of `%x` times `%w`, and the sums over their columns.

    ```mlir
    func.func @step(%x: tensor<64x8xf32>, %w: tensor<8x8xf32>)
        -> (tensor<64x8xf32>, tensor<8xf32>) {
      %y, %sum = binade.tile 4 slices 1 joins 1 (%x, %w) {
      ^bb0(%piece: tensor<16x8xf32>, %all: tensor<8x8xf32>):
        %rows = binade.matmul %piece, %all
            : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
        %sums = binade.reduce_sum %rows {axes = array<i64: 0>}
            : (tensor<16x8xf32>) -> tensor<8xf32>
        binade.yield %rows, %sums : tensor<16x8xf32>, tensor<8xf32>
      } : (tensor<64x8xf32>, tensor<8x8xf32>) -> (tensor<64x8xf32>, tensor<8xf32>)
      return %y, %sum : tensor<64x8xf32>, tensor<8xf32>
    }
    ```

    Example: the same sums of 64 rows, in three pieces of 20 rows and one of 4.

    ```mlir
    func.func @step(%x: tensor<64x8xf32>) -> tensor<64xf32> {
      %y = binade.tile 3 of 5 remainder 1 slices 1 joins 1 (%x) {
      ^bb0(%piece: tensor<20x8xf32>):
        %sums = binade.reduce_sum %piece {axes = array<i64: 1>}
            : (tensor<20x8xf32>) -> tensor<20xf32>
        binade.yield %sums : tensor<20xf32>
      } remainder {
      ^bb0(%piece: tensor<4x8xf32>):
        %sums = binade.reduce_sum %piece {axes = array<i64: 1>}
            : (tensor<4x8xf32>) -> tensor<4xf32>
        binade.yield %sums : tensor<4xf32>
      } : (tensor<64x8xf32>) -> tensor<64xf32>
      return %y : tensor<64xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Tensor>:$operands,
                       ConfinedAttr<I64Attr, [IntMinValue<1>]>:$count,
                       DefaultValuedAttr<
                           ConfinedAttr<I64Attr, [IntMinValue<1>]>, "1">:$size,
                       DefaultValuedAttr<
                           ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$remainder,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$slices,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$joins);
  let results = (outs Variadic<Tensor>:$results);
  let regions = (region SizedRegion<1>:$body, MaxSizedRegion<1>:$remainderBody);
  let assemblyFormat = [{
    $count (`of` $size^ `remainder` $remainder)? `slices` $slices `joins` $joins
    `(` $operands `)` $body (`remainder` $remainderBody^)? attr-dict
    `:` functional-type($operands, results)
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    TileShape getShape() {
      return {static_cast<int64_t>(getCount()), static_cast<int64_t>(getSize()),
              static_cast<int64_t>(getRemainder())};
    }
    /// Returns the body, then that of the remainder, if there is a remainder.
    SmallVector<Block *> getBodies();
    /// Creates a tile with other results, of which `joins` are joined, and
    /// without bodies.
    TileOp cloneWithoutBodies(OpBuilder &b, TypeRange types, int64_t joins);
    /// Moves the bodies of `other` into this tile, which has none.
    void takeBodies(TileOp other);
    Operation *getYield() { return getBody().front().getTerminator(); }
  }];
}

def Binade_YieldOp : Binade_Op<"yield", [
    Pure, Terminator, ReturnLike, HasParent<"TileOp">]> {
  let summary = "terminator of the body of a tile";
  let description = [{
    Its operands are the pieces of the joined results, then the summands of the others.

    Example:

    ```mlir
    func.func @step(%x: tensor<64x8xf32>) -> tensor<64x8xf32> {
      %y = binade.tile 4 slices 1 joins 1 (%x) {
      ^bb0(%piece: tensor<16x8xf32>):
        %e = binade.exp %piece : (tensor<16x8xf32>) -> tensor<16x8xf32>
        binade.yield %e : tensor<16x8xf32>
      } : (tensor<64x8xf32>) -> tensor<64x8xf32>
      return %y : tensor<64x8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Tensor>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
  let builders = [OpBuilder<(ins), "">];
}

#endif // BINADE_IR_OPS_KERNEL_TD
