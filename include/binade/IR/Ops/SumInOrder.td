//===- SumInOrder.td - sums in a fixed order ------------------------------===//

#ifndef BINADE_IR_OPS_SUMINORDER_TD
#define BINADE_IR_OPS_SUMINORDER_TD

include "binade/IR/Ops/Base.td"

def Binade_SumInOrderOp : Binade_Op<"sum_in_order", [
    Pure, NotDifferentiable, ReadsNeighbors,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "decompose", "getRows"]>]> {
  let summary = "sum along an axis in a fixed order";
  let description = [{
    Adds the n elements of `x` along `axis` in f32, each addition rounded once, in an order
    that is the same on all backends, unlike that of `reduce_sum`. So the results have the
    same bits, and formats whose scales depend on such sums represent the same values. The
    axis remains, with one element, y.

    ```text
    y = x[0]; for i = 1 ... n - 1: y = y + x[i]              one after the other
    while n > 1:                                             with `by_halves`
      h = the largest power of 2 below n
      x[i] = x[i] + (x[i + h] if i + h < n else 0), i < h; n = h
    y = x[0]
    ```

    Infinities and NaN follow from the arithmetic. The op has no gradient: it exists only
    after differentiation, when `quantize` is decomposed.

    Constraints:

    - (C1) `x` has the axis, with 1 to 128 elements.
    - (C2) The result has the shape of `x`, but one element along `axis`.

    Example:

    ```mlir
    %y = binade.sum_in_order %x {axis = 1 : i64, by_halves}
       : (tensor<8x16xf32>) -> tensor<8x1xf32>
    ```
  }];
  let arguments = (ins StaticF32Tensor:$x,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$axis,
                       UnitAttr:$by_halves);
  let results = (outs StaticF32Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // BINADE_IR_OPS_SUMINORDER_TD
