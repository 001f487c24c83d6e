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
    depend on becomes a buffer that nothing advances, with a warning.

    Backward ops carry `binade.phase = backward` and the location of the op that they
    differentiate. A forward value that they read passes through one `binade.save`.

    A module that came with `@gradient` keeps its backward part; only the saves are added.

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

def StabilizeEmbeddingsPass
    : Pass<"binade-stabilize-embeddings", "::mlir::ModuleOp"> {
  let summary = "normalize the rows that a batch looks up in a parameter";
  let description = [{
    The stable embedding of Dettmers et al. (8-bit optimizers via block-wise
    quantization, 2022): a layer norm, epsilon 1e-5, behind each `gather` from a
    parameter whose indices depend on a batch, before anything is added. `token.weight`
    gets the parameters `token.norm.weight`, which starts as 1, and `token.norm.bias`,
    which starts as 0. Where `token.weight` is drawn when training starts, it is drawn
    uniformly within sqrt(6 / (rows + columns)).

    Runs on `@forward`, before gradients. A model without such a lookup is an error.

    Example:

    ```mlir
    %x = binade.gather %token, %ids : ...
    // becomes
    %rows = binade.gather %token, %ids : ...
    %x, %mean, %rstd = binade.layer_norm %rows, %scale, %shift {epsilon = 1.0e-5} : ...
    ```
  }];
}

#endif // BINADE_AUTODIFF_PASSES_TD
