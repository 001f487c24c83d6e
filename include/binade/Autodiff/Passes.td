//===- Passes.td - Autodiff passes ----------------------------------------===//

#ifndef BINADE_AUTODIFF_PASSES_TD
#define BINADE_AUTODIFF_PASSES_TD

include "mlir/Pass/PassBase.td"

def BuildGradientPass : Pass<"binade-build-gradient", "::mlir::ModuleOp"> {
  let summary = "Append the backward pass of the loss to the forward function";
  let description = [{
    An imported model computes a loss. Training also needs the gradient of that loss with
    respect to every parameter.

    The pass turns `@forward` into `@gradient`. It visits the ops between the parameters
    and the loss in reverse order and emits the adjoint of each
    (`DifferentiableOpInterface`). Where several adjoints contribute to one gradient, the
    contributions are added in the order in which they are emitted. Each parameter gets
    a result of role `gradient`. A parameter that the loss does not depend on becomes a
    buffer, with a warning.

    Every forward value that a backward op reads, except arguments and constants, passes
    through one `binade.save`. The operands of these ops are the activations that a step
    keeps in memory between its forward and its backward pass.

    Example:

    ```mlir
    // Before
    func.func @forward(
        %w: tensor<8xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        %x: tensor<8xf32> {binade.name = "x", binade.role = #binade.role<batch>})
        -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
      %h = binade.mul %w, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %y = binade.exp %h : (tensor<8xf32>) -> tensor<8xf32>
      %loss = binade.reduce_sum %y {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    }
    ```

    ```mlir
    // After
    func.func @gradient(
        %w: tensor<8xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        %x: tensor<8xf32> {binade.name = "x", binade.role = #binade.role<batch>})
        -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
            tensor<8xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
      %0 = binade.mul %w, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %1 = binade.exp %0 : (tensor<8xf32>) -> tensor<8xf32>
      %2 = binade.save %1 : (tensor<8xf32>) -> tensor<8xf32>
      %3 = binade.reduce_sum %1 {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
      %4 = binade.gradient_seed {binade.phase = #binade.phase<backward>} : () -> tensor<f32>
      %5 = binade.broadcast %4 {axes = array<i64>, binade.phase = #binade.phase<backward>}
          : (tensor<f32>) -> tensor<8xf32>
      %6 = binade.mul %5, %2 {binade.phase = #binade.phase<backward>}
          : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %7 = binade.mul %6, %x {binade.phase = #binade.phase<backward>}
          : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      return %3, %7 : tensor<f32>, tensor<8xf32>
    }
    ```

    Requires: `@forward` with a metric result `loss` of one element, or `@gradient`. A
    function `@gradient`, imported with gradients of its own, keeps its backward ops and
    only gets the saves.

    Preserves: the forward ops and their order. Backward ops have the attribute
    `binade.phase = #binade.phase<backward>` and the location of the op that they
    differentiate.
  }];
}

def StabilizeEmbeddingsPass
    : Pass<"binade-stabilize-embeddings", "::mlir::ModuleOp"> {
  let summary = "Add a layer norm after every embedding lookup";
  let description = [{
    The gradients of an embedding table vary more than those of other parameters, which
    makes training with 8-bit optimizer states unstable. The stable embedding of Dettmers
    et al. (8-bit Optimizers via Block-wise Quantization, 2022) is a lookup followed by a
    layer norm.

    The pass adds a `binade.layer_norm` with epsilon 1e-5 after each `binade.gather` that
    reads rows of a parameter at indices that depend on the batch; positional embeddings,
    whose indices are constant, stay as they are. For a table `token.weight` it adds the
    parameters `token.norm.weight`, initialized to 1, and `token.norm.bias`, initialized
    to 0. A table with a random initial value is initialized uniformly in [-a, a] with a =
    sqrt(6 / (rows + columns)) instead (Xavier uniform).

    Example:

    ```mlir
    // Before
    func.func @forward(
        %token: tensor<94x2xf32> {binade.name = "token.weight",
                                  binade.init = #binade.random<"normal", 0.0, 0.02>,
                                  binade.role = #binade.role<parameter>},
        %ids: tensor<5xi64> {binade.name = "ids", binade.role = #binade.role<batch>})
        -> (tensor<5x2xf32> {binade.name = "y", binade.role = #binade.role<output>}) {
      %y = binade.gather %token, %ids : (tensor<94x2xf32>, tensor<5xi64>) -> tensor<5x2xf32>
      return %y : tensor<5x2xf32>
    }
    ```

    ```mlir
    // After
    func.func @forward(
        %token_weight: tensor<94x2xf32> {binade.name = "token.weight",
                                         binade.init = #binade.random<"uniform", -0.25, 0.5>,
                                         binade.role = #binade.role<parameter>},
        %token_norm_weight: tensor<2xf32> {binade.name = "token.norm.weight",
                                           binade.init = dense<1.0> : tensor<2xf32>,
                                           binade.role = #binade.role<parameter>},
        %token_norm_bias: tensor<2xf32> {binade.name = "token.norm.bias",
                                         binade.init = dense<0.0> : tensor<2xf32>,
                                         binade.role = #binade.role<parameter>},
        %ids: tensor<5xi64> {binade.name = "ids", binade.role = #binade.role<batch>})
        -> (tensor<5x2xf32> {binade.name = "y", binade.role = #binade.role<output>}) {
      %0 = binade.gather %token_weight, %ids : (tensor<94x2xf32>, tensor<5xi64>) -> tensor<5x2xf32>
      %y, %mean, %rstd = binade.layer_norm %0, %token_norm_weight, %token_norm_bias
          {epsilon = 1.0e-5}
          : (tensor<5x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<5x2xf32>, tensor<5xf32>,
            tensor<5xf32>)
      return %y : tensor<5x2xf32>
    }
    ```

    Requires: `@forward`, before `binade-build-gradient`. A model without such a lookup,
    or whose table has a norm by these names already, is an error.

    Preserves: initial values that are not random.
  }];
}

#endif // BINADE_AUTODIFF_PASSES_TD
