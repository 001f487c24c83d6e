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

def RecomputePass : Pass<"binade-recompute", "::mlir::ModuleOp"> {
  let summary = "compute again what is cheaper than to keep";
  let description = [{
    An elementwise op whose result the backward part reads, through `binade.save`, and
    whose operands it has anyway, is run again before the first op that reads it; the
    save goes. The value is the same to the last bit. In a transformer this is the
    output of the activation function, which only the gradient of the next weight
    reads.
  }];
}

def FormKernelsPass : Pass<"binade-form-kernels", "::mlir::ModuleOp"> {
  let summary = "group ops into kernels and outline them";
  let description = [{
    Puts ops of one shape that feed each other into one kernel: elementwise ops and
    reductions over rows; all ops on scalars; all updates of parameters. What costs
    nothing to compute again (broadcasts, constants, widening casts) is copied into
    each kernel that reads it. Each group becomes a private function with
    `binade.kernel` and a `binade.launch`; equal functions are one. Library calls and
    views stay where they are.

    The order of launches keeps close to the order of the ops, so that values die
    early. Fusion moves no rounding: a value that is bf16 in the IR is rounded to bf16
    inside of the kernel too.
  }];
}

#endif // BINADE_KERNELS_PASSES_TD
