//===- Passes.td - passes of the Kernels station --------------------------===//

#ifndef BINADE_KERNELS_PASSES_TD
#define BINADE_KERNELS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExpandCompositesPass : Pass<"binade-expand-composites", "::mlir::ModuleOp"> {
  let summary = "split ops that are both library calls and kernels";
  let description = [{
    Replaces every op of `@step` whose schedule is `library` and that has a
    decomposition (attention) by its parts, which keep its location and phase.
  }];
}

def FoldEmptyPass : Pass<"binade-fold-empty", "::mlir::ModuleOp"> {
  let summary = "remove ops on tensors without elements";
  let description = [{
    Tensors with an axis of length 0 are valid, but later phases would each need a case
    for them. This pass removes the ops that read or write one; only arguments and results
    of functions remain.

    An op whose results are all empty is replaced by operands of their types, or constants:
    empty tensors of one type are equal. An op that reads an empty tensor and has a result
    with elements is replaced by what the op's `buildWithoutElements` emits: the neutral
    element of its sum or maximum, the concatenation of its other operands, a bias.

    ```mlir
    %e = binade.slice %x {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
      : (tensor<2x3xf32>) -> tensor<0x3xf32>
    %s = binade.reduce_sum %e {axes = array<i64: 0>} : (tensor<0x3xf32>) -> tensor<3xf32>
    ```

    becomes

    ```mlir
    %s = binade.constant dense<0.000000e+00> : tensor<3xf32>
    ```
  }];
}

def ChooseLayoutsPass : Pass<"binade-choose-layouts", "::mlir::ModuleOp"> {
  let summary = "put axes into the order that ops prefer";
  let description = [{
    Walks `@step` once. An op that prefers an order of axes gets it (a convolution
    wants the channel last); ops that commute with a permutation follow their operands:
    elementwise ops as they are, reductions, broadcasts, slices and batch norms with
    their axes renamed. Where an op takes row-major order only, or a value comes from
    outside, there is one `binade.transpose` per value and layout, and a view where
    only axes of length 1 move. What costs nothing to compute again is built in each
    layout that is asked for.

    The interface of the step does not change, nor does any rounding. Sums of a
    reduction may be added up in another order.
  }];
}

def MoveSavesPass : Pass<"binade-move-saves", "::mlir::ModuleOp"> {
  let summary = "keep a value once, not its rearranged copies";
  let description = [{
    Where the backward part reads slices or transposes of one forward value, through
    `binade.save`, and together they are as large as the value, the value is kept and
    they are made from it once more. Where the value itself is kept beside a transposed
    copy with all its elements, it is made from that. In a transformer queries, keys and
    values become one product's result, and attention's output is kept once.
  }];
}

def RecomputePass : Pass<"binade-recompute", "::mlir::ModuleOp"> {
  let summary = "compute again what is cheaper than to keep";
  let description = [{
    An elementwise op whose result the backward part reads, through `binade.save`, and
    whose operands it has anyway, is run again before the first op that reads it; the
    save goes. The value is the same to the last bit. In a transformer this is the
    output of the activation function, which only the gradient of the next weight
    reads. Of a broadcast its operand is kept.
  }];
}

def TileRowsPass : Pass<"binade-tile-rows", "::mlir::ModuleOp"> {
  let summary = "do large short-lived values a few rows at a time";
  let description = [{
    Where a value of `@step` is large, and the ops that make it, those that read it and
    all between can be done for some rows at a time, they become the body of a
    `binade.tile`. In a language model these are the logits: last product,
    cross-entropy, its gradient, and the two products that consume it, whose sum over
    rows stays f32 and is rounded once. Nothing is computed twice. What only watches the
    step (`binade.every`) does not keep its values from being made so: they become results
    of the tile, which it reads behind it.
  }];
  let options = [
    Option<"elements", "elements", "int64_t", /*default=*/"1 << 22",
           "most elements of a value that may exist whole, and of a piece, "
           "where no target says so">,
    Option<"rows", "rows", "int64_t", /*default=*/"128",
           "fewest rows of a piece: products of fewer are slow">,
  ];
}

def GrowTilesPass : Pass<"binade-grow-tiles", "::mlir::ModuleOp"> {
  let summary = "move slices and transposes into the tiles that they feed";
  let description = [{
    An op that only moves elements, and not from row to row, is taken into the tile
    that alone reads its result, or whose results alone it reads: it is done for each
    piece, whose copies are small and stay in a cache.
  }];
}

def TurnCodesPass : Pass<"binade-turn-codes", "::mlir::ModuleOp"> {
  let summary = "write codes in both orders where they are made";
  let description = [{
    For targets that are no CPU: a transpose of codes of a byte, of their rows and
    columns, moves to the elementwise op that makes them, whose kernel writes both. What
    the backward part reads, through `binade.save`, are then the transposed codes; a
    transpose stays where it is if others wait for the backward part, too.
  }];
}

def ElideMovementPass : Pass<"binade-elide-movement", "::mlir::ModuleOp"> {
  let summary = "leave slices and transposes to records that have strides";
  let description = [{
    A slice or a transpose that only attention reads, by itself or through reshapes,
    gets `binade.elided`: the record reads the elements where they are. So does a
    transpose that alone reads what attention writes: the record writes the elements
    to where they belong. Columns stay next to one another.
  }];
}

def FormKernelsPass : Pass<"binade-form-kernels", "::mlir::ModuleOp"> {
  let summary = "group ops into kernels and outline them";
  let description = [{
    Puts ops of one shape that feed each other into one kernel: elementwise ops and
    reductions over rows; all ops on scalars; all updates of parameters. What costs
    nothing to compute again (broadcasts, constants, widening casts) is copied into
    each kernel that reads it. A reduction of what another kernel reads anyway to a
    number is done by that one. Each group becomes a private function with
    `binade.kernel` and a `binade.launch`; equal functions are one. Library calls and
    views stay where they are.

    The order of launches keeps close to the order of the ops, so that values die
    early. Fusion moves no rounding: a value that is bf16 in the IR is rounded to bf16
    inside of the kernel too.
  }];
}

#endif // BINADE_KERNELS_PASSES_TD
