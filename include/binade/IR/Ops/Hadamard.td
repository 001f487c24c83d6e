//===- Hadamard.td - the Hadamard transform -------------------------------===//

#ifndef BINADE_IR_OPS_HADAMARD_TD
#define BINADE_IR_OPS_HADAMARD_TD

include "binade/IR/Ops/Base.td"

def Binade_HadamardOp : Binade_Op<"hadamard", [
    Pure, NotDifferentiable, ReadsNeighbors,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "decompose", "getRows"]>]> {
  let summary = "Hadamard transform of groups of elements";
  let description = [{
    Multiplies each group of `size` elements along `axis`, -1 for rows and -2 for columns, by
    the orthonormal Hadamard matrix of Sylvester's construction. This distributes a large
    element over its group, so that its neighbors lose less if the group is quantized with
    one scale. The matrix is its own inverse: if both operands of a matmul are transformed along
    the axis that is summed over, and have the same `signs`, the result stays the same up to
    rounding.

    The order of the operations is part of the definition, so that all backends compute the
    same bits. For a group x and n = `size`, in f32, each operation rounded once:

    ```text
    y[i] = x[i] signs[i]                                     exact for signs of 1 and -1
    for h = 1, 2, 4, ... n / 2, for each i without bit h:
      y[i], y[i + h] = y[i] + y[i + h], y[i] - y[i + h]
    y[i] = y[i] (1 / sqrt(n))                                the constant is rounded to f32
    ```

    and the last result is rounded to the type of the op's result. Without `signs` the first
    line is omitted. Infinities and NaN follow from the arithmetic: a group with one of them
    has no finite element. An empty tensor gives an empty tensor. The op has no gradient: it
    exists only after differentiation.

    Constraints:

    - (C1) `size` is 4, 8, 16, 32, 64 or 128.
    - (C2) `x` has the axis, and `size` divides its length.
    - (C3) `signs` has `size` elements.
    - (C4) Operand and result have one shape.

    Example:

    ```mlir
    %y = binade.hadamard %x signs(%s) {axis = -1 : i64, size = 16 : i64}
       : (tensor<8x64xbf16>, tensor<16xf32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins ComputedTensor:$x, Optional<StaticF32Tensor>:$signs,
                       I64Attr:$size,
                       ConfinedAttr<I64Attr, [IntMinValue<-2>, IntMaxValue<-1>]>:$axis);
  let results = (outs ComputedTensor:$y);
  let assemblyFormat = [{
    $x (`signs` `(` $signs^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // BINADE_IR_OPS_HADAMARD_TD
