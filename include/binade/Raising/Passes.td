//===- Passes.td - Raising passes -----------------------------------------===//

#ifndef BINADE_RAISING_PASSES_TD
#define BINADE_RAISING_PASSES_TD

include "mlir/Pass/PassBase.td"

def RecognizeCompositesPass
    : Pass<"binade-recognize-composites", "::mlir::func::FuncOp"> {
  let summary = "Replace decomposed composites by single ops";
  let description = [{
    Exporters decompose some functions into elementary ops: a GELU becomes five nodes of
    an ONNX graph, a layer norm nine. Precision policies, adjoints and kernels know these
    functions as ops of their own.

    The pass replaces each decomposition by the op that it computes:

    - `gelu`: `x 0.5 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))` and `x 0.5 (1 +
      erf(x / sqrt(2)))`, with the factors in any order;
    - `silu`: `x sigmoid(x)`;
    - `attention`: `dropout(softmax(mask(cap(scale q k^T) + biases))) v`, where each part may
      be missing: a soft cap `c tanh(x / c)`; summands, such as masks and relative positions;
      a selection between scores and a constant; and zeros instead of NaN after the softmax.
      A constant mask of -inf, or of at most -1e30 if it is the only one, at exactly the
      later positions becomes `causal`. Heads that read copies of the same keys and values
      share these;
    - `layer_norm`: `(x - mean) / sqrt(variance + epsilon) scale + bias` over the last
      axes, with the sums and products in any order. A scale and a bias per channel, as in
      a group norm or an instance norm, stay separate ops after it;
    - `rms_norm`: `x / sqrt(mean(x^2) + epsilon) scale` over the last axes, likewise;
    - `batch_norm` and `batch_norm_statistics`: the same over all axes but one, in f32;
    - `softmax` and `log_softmax`: over one axis, of `x - max(x)`;
    - `cross_entropy`: the negative logarithm of the softmax at the label;
    - the bias of `matmul`: a vector with one element per column, added to the result.

    Two formulas whose gradients would be NaN are rewritten: atan2 as the arc tangent of
    `y / x`, plus or minus pi where x is negative; and a softmax of fully masked rows, which is
    NaN there, with 0 selected after it.

    Constants have to equal those of the function, rounded to the format of the tensor, bit
    for bit. Intermediate values must have no other use, except for the statistics of a
    batch norm, which may also update running statistics. Anything else stays as it is.

    Example:

    ```mlir
    // Before
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %half = binade.constant dense<0.5> : tensor<8xf32>
      %one = binade.constant dense<1.0> : tensor<8xf32>
      %root = binade.constant dense<1.41421354> : tensor<8xf32>
      %h = binade.mul %x, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %d = binade.div %x, %root : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %e = binade.erf %d : (tensor<8xf32>) -> tensor<8xf32>
      %s = binade.add %e, %one : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %y = binade.mul %h, %s : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      return %y : tensor<8xf32>
    }
    ```

    ```mlir
    // After
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = binade.gelu %x : (tensor<8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    ```

    Requires: an imported graph whose shapes are bound and whose constants are folded.

    Preserves: the function of real numbers; the rounding of intermediate values changes.
    The location of the new op lists all nodes that it replaces, the last one first.
  }];
  let options = [
    Option<"afterRemovedBackward", "after-removed-backward", "bool", "false",
           "Visit only functions whose imported backward pass was removed by "
           "binade-remove-imported-backward, where values that only the backward pass read "
           "no longer prevent the replacement.">
  ];
}

def SplitTrainingStepPass : Pass<"binade-split-training-step", "::mlir::ModuleOp"> {
  let summary = "Split an exported training step into forward, backward and update";
  let description = [{
    A framework can export a whole training step as one graph: forward pass, backward pass
    and optimizer update. The file does not say which input is a parameter, which result is
    its new value, or which values are gradients.

    The pass turns such a `@forward` into `@gradient` and one optimizer rule per kind of
    update. It classifies inputs and results by their data flow; names play no part:

    - A result that is an elementwise function of an input of the same type, and of no
      other input that is still unclassified, replaces that input.
    - The loss is the floating-point scalar that replaces no input and depends on the
      largest number of replaced inputs.
    - A parameter is replaced, and the loss depends on it. Its update reads one value
      other than the parameter, optimizer states and scalars: the gradient.
    - An optimizer state is read by updates alone. The step count is an integer that is
      incremented by 1. Other replaced inputs are buffers; inputs that are not replaced are
      the batch.
    - A scalar input that only updates read, and that no result replaces, is a count of
      updates if it is an integer. An f32 scalar is a learning rate if the change of every
      parameter is proportional to it and no optimizer state depends on it.

    Each update becomes a rule (`binade.optimizer`), op by op, and the parameter names the
    rule in its attribute `binade.optimizer`. Equal updates share a rule. Optimizer states
    start from 0. A learning rate becomes the hyper-parameter `lr`, without a default;
    `binade.rates` on the function lists the inputs that it replaces.

    Ops that gradients depend on and the loss does not are the backward pass. If the
    backward pass is linear in values that come from the forward pass, these are multiplied
    by `binade.gradient_seed`, so that loss scaling can be applied.

    A graph without updates may have gradients among its results: tensors of the types of
    inputs, which the loss does not depend on. They are paired with the inputs by comparing
    their values with those of autodiff at a random point, or by their order where the graph
    is too large to be evaluated.

    Example: gradient descent with momentum on the loss `sum((x w)^2)`.

    ```mlir
    // Before
    func.func @forward(
        %m: tensor<4xf32> {binade.name = "a", binade.role = #binade.role<batch>},
        %w: tensor<4xf32> {binade.name = "b", binade.role = #binade.role<batch>},
        %x: tensor<4xf32> {binade.name = "c", binade.role = #binade.role<batch>})
        -> (tensor<4xf32> {binade.name = "d", binade.role = #binade.role<output>},
            tensor<f32> {binade.name = "e", binade.role = #binade.role<output>},
            tensor<4xf32> {binade.name = "f", binade.role = #binade.role<output>}) {
      %momentum = binade.constant dense<9.000000e-01> : tensor<4xf32>
      %rate = binade.constant dense<1.000000e-02> : tensor<4xf32>
      %two = binade.constant dense<2.000000e+00> : tensor<4xf32>
      %y = binade.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %square = binade.mul %y, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %loss = binade.reduce_sum %square {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      %dy = binade.mul %y, %two : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %g = binade.mul %x, %dy : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %decayed = binade.mul %m, %momentum : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %m_new = binade.add %decayed, %g : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %change = binade.mul %m_new, %rate : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %w_new = binade.sub %w, %change : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %w_new, %loss, %m_new : tensor<4xf32>, tensor<f32>, tensor<4xf32>
    }
    ```

    ```mlir
    // After
    func.func @gradient(
        %b: tensor<4xf32> {binade.name = "b",
                           binade.optimizer = @exported,
                           binade.role = #binade.role<parameter>},
        %c: tensor<4xf32> {binade.name = "c", binade.role = #binade.role<batch>})
        -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
            tensor<4xf32> {binade.name = "b", binade.role = #binade.role<gradient>}) {
      %0 = binade.constant dense<2.0> : tensor<4xf32>
      %1 = binade.mul %c, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %2 = binade.mul %1, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %3 = binade.reduce_sum %2 {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      %4 = binade.mul %1, %0 {binade.phase = #binade.phase<backward>}
          : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %5 = binade.gradient_seed {binade.phase = #binade.phase<backward>} : () -> tensor<f32>
      %6 = binade.broadcast %5 {axes = array<i64>, binade.phase = #binade.phase<backward>}
          : (tensor<f32>) -> tensor<4xf32>
      %7 = binade.mul %4, %6 {binade.phase = #binade.phase<backward>}
          : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %8 = binade.mul %c, %7 {binade.phase = #binade.phase<backward>}
          : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %3, %8 : tensor<f32>, tensor<4xf32>
    }
    binade.optimizer @exported {hypers = [], states = [#binade.setting<"state0" = 0.0>]}
    func.func private @exported.scalars(%step: i64) {
      return
    }
    func.func private @exported.update(%p: f32, %g: f32, %m: f32) -> (f32, f32) {
      %momentum = arith.constant 0.899999976 : f32
      %decayed = arith.mulf %m, %momentum : f32
      %m_new = arith.addf %decayed, %g : f32
      %rate = arith.constant 0.00999999977 : f32
      %change = arith.mulf %m_new, %rate : f32
      %p_new = arith.subf %p, %change : f32
      return %p_new, %m_new : f32, f32
    }
    ```

    Requires: an imported graph. A graph that is not a training step is not changed.

    Preserves: the ops of the forward and of the backward pass.
  }];
}

def RemoveImportedBackwardPass : Pass<"binade-remove-imported-backward", "::mlir::ModuleOp"> {
  let summary = "Remove an imported backward pass that autodiff would derive equally";
  let description = [{
    The backward pass of an exported training step is decomposed into elementary ops. If
    autodiff derives the same gradients, it is better to derive them again: then every
    composite (norm, softmax, GELU, attention, loss, convolution) has one op for its
    gradient, and the graph is optimized like one without gradients.

    The pass turns `@gradient` into `@forward` if both hold:

    - The gradients are linear in a seed (`binade.gradient_seed`); clipped or compared
      gradients are not.
    - The imported gradients and those of autodiff are evaluated in f64 at two random
      points, near 0 and far from it, and none differs by more than 2^-22 of its norm,
      which is what constants rounded to f32 may cause.

    Otherwise, or if the graph is too large to be evaluated, the backward pass stays. The
    attribute `binade.backward` of the function says which, and why. Parameters keep their
    optimizer rules.

    Example:

    ```mlir
    // Before
    func.func @gradient(
        %w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
        -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
            tensor<4xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
      %square = binade.mul %w, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %loss = binade.reduce_sum %square {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      %seed = binade.gradient_seed {binade.phase = #binade.phase<backward>} : () -> tensor<f32>
      %seeds = binade.broadcast %seed {axes = array<i64>, binade.phase = #binade.phase<backward>}
          : (tensor<f32>) -> tensor<4xf32>
      %half = binade.mul %w, %seeds {binade.phase = #binade.phase<backward>}
          : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %dw = binade.add %half, %half {binade.phase = #binade.phase<backward>}
          : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %loss, %dw : tensor<f32>, tensor<4xf32>
    }
    ```

    ```mlir
    // After
    func.func @forward(
        %w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
        -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>})
        attributes {binade.backward = "derived anew: the graph's has the same gradients"} {
      %0 = binade.mul %w, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %1 = binade.reduce_sum %0 {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      return %1 : tensor<f32>
    }
    ```

    Requires: `binade-split-training-step`; a module in f32.

    Preserves: the forward ops.
  }];
}

def RecognizeGradientsPass
    : Pass<"binade-recognize-gradients", "::mlir::ModuleOp"> {
  let summary = "Replace decomposed gradients of composites by single ops";
  let description = [{
    An imported backward pass that is kept has the gradients of composites decomposed into
    elementary ops. The pass replaces a decomposition by the gradient op that it computes:

    - `softmax_grad`: `dy y - y sum(dy y)`, where y is a `softmax`;
    - `log_softmax_grad`: `dy - exp(y) sum(dy)`, where y is a `log_softmax`;
    - `conv_weight_grad`: a convolution whose operands have batch and channels exchanged,
      and whose strides and dilations are exchanged.

    A formula with another factor or constant stays as it is.

    Example:

    ```mlir
    // Before
    func.func @gradient(%x: tensor<3x4xf32>, %dy: tensor<3x4xf32>) -> tensor<3x4xf32> {
      %y = binade.softmax %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
      %p = binade.mul %dy, %y {binade.phase = #binade.phase<backward>}
          : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
      %s = binade.reduce_sum %p {axes = array<i64: 1>, binade.phase = #binade.phase<backward>}
          : (tensor<3x4xf32>) -> tensor<3xf32>
      %b = binade.broadcast %s {axes = array<i64: 0>, binade.phase = #binade.phase<backward>}
          : (tensor<3xf32>) -> tensor<3x4xf32>
      %q = binade.mul %y, %b {binade.phase = #binade.phase<backward>}
          : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
      %dx = binade.sub %p, %q {binade.phase = #binade.phase<backward>}
          : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
      return %dx : tensor<3x4xf32>
    }
    ```

    ```mlir
    // After
    func.func @gradient(%x: tensor<3x4xf32>, %dy: tensor<3x4xf32>) -> tensor<3x4xf32> {
      %0 = binade.softmax %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
      %1 = binade.softmax_grad %dy, %0 {binade.phase = #binade.phase<backward>}
          : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
      return %1 : tensor<3x4xf32>
    }
    ```

    Requires: `@gradient` with ops of the phase `backward` (`binade-split-training-step`). Run
    after `binade-remove-imported-backward`.

    Preserves: the gradients as functions of real numbers. The location of the new op
    lists all nodes that it replaces.
  }];
}

#endif // BINADE_RAISING_PASSES_TD
