//===- Passes.td - passes of the Autodiff station -------------------------===//

#ifndef BINADE_AUTODIFF_PASSES_TD
#define BINADE_AUTODIFF_PASSES_TD

include "mlir/Pass/PassBase.td"

def BuildGradientPass : Pass<"binade-build-gradient", "::mlir::ModuleOp"> {
  let summary = "extend the forward function by the gradients of its parameters";
  let description = [{
    Turns `@forward`, whose metric result `loss` has one element, into `@gradient`:
    the same ops, then, for each op on a path from a parameter to the loss, its
    adjoint, in reverse order. Gradients that meet are added in that order. Each
    parameter gets a result of role `gradient`; a parameter that the loss does not
    depend on gets zeros, with a warning.

    Backward ops carry `binade.phase = backward` and the location of the op that they
    differentiate. A forward value that they read passes through one `binade.save`.

    Example:

    ```mlir
    %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : ...
    return %loss
    // becomes
    %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : ...
    %seed = binade.gradient_seed : () -> tensor<f32>
    %dy = binade.broadcast %seed ...
    ...
    return %loss, %dw
    ```
  }];
}

#endif // BINADE_AUTODIFF_PASSES_TD
