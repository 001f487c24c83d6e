//===- Passes.td - passes of the Recovery station -------------------------===//

#ifndef BINADE_RECOVERY_PASSES_TD
#define BINADE_RECOVERY_PASSES_TD

include "mlir/Pass/PassBase.td"

def RecoverStepPass : Pass<"binade-recover-step", "::mlir::ModuleOp"> {
  let summary = "tell apart the parts of a training step that came as one graph";
  let description = [{
    Turns a `@forward` that holds a whole training step (forward, backward, update)
    into `@gradient`. What is what follows from the data flow alone; names are only
    carried along:

    - a result that is an elementwise function of an argument of its type, and of no
      other that is left, replaces that argument;
    - the loss is the one float that replaces nothing and has the most parameters;
    - a parameter is replaced, and the loss depends on it; its update reads one value
      beside the parameter, states and numbers: the gradient;
    - states are read by updates alone, the step is counted up by 1, buffers are what
      else is replaced, the rest is batch;
    - a number that nothing replaces and updates alone read is a count of updates where
      it is an integer, and a learning rate where it is of f32: if states do not depend
      on it, with 0 the new parameter depends on neither gradient nor states, and what
      it changes the parameter by is proportional to it.

    Every update becomes a rule of the module (`binade.optimizer`), operation by
    operation, and the parameter names it as `binade.optimizer`: the optimizer station
    applies it. Updates that are alike share a rule. States start from 0. A learning rate
    is the hyper-parameter `lr`, without a default, and `binade.rates` on the function
    says which inputs it was.

    What comes before the gradients and does not lead to the loss is the backward part.
    It stays as it is.

    A graph without updates may still have gradients: results of the types of
    arguments that do not lead to the loss. Binade's own gradients are evaluated at a
    random point to tell whether they are, and whose is whose; in a graph too large for
    that it is the order.

    Where the backward part is linear in values computed from the forward part, these are
    multiplied by `binade.gradient_seed`: there a loss scale enters.

    A graph that is none of this is not touched.

    Example:

    ```mlir
    %kept = binade.mul %m, %c9 : ...
    %m_new = binade.add %kept, %g : ...
    %change = binade.mul %m_new, %rate : ...
    %w_new = binade.sub %w, %change : ...
    return %loss, %w_new, %m_new
    // becomes a rule of one state, and
    return %loss, %g
    ```
  }];
}

def DropBackwardPass : Pass<"binade-drop-backward", "::mlir::ModuleOp"> {
  let summary = "leave the backward part to autodiff where it would derive the same";
  let description = [{
    A graph of f32 that came with its gradients (`@gradient`) becomes the `@forward` that
    they are of, if they are what autodiff makes of it:

    - they are linear in a seed (`binade.gradient_seed`), which what clips or compares
      gradients is not;
    - both are evaluated in f64 at two points drawn at random, near 0 and far from it,
      and no gradient differs by more than the rounding of a few constants to f32,
      2^-22 of its norm.

    So composites that exporters spell out (norms, softmax, GELU, attention, losses,
    convolutions) have one op each for their gradients, and whatever is true of a graph
    without gradients is true of this one. Updates stay with their parameters.

    Any other backward part is kept, and so is one that is too large to be evaluated. The
    function's attribute `binade.backward` says which, and why.

    Example:

    ```mlir
    func.func @gradient(%w: ... {binade.role = #binade.role<parameter>}) -> (
        tensor<f32> {binade.role = #binade.role<metric>},
        tensor<4xf32> {binade.role = #binade.role<gradient>})
    // becomes
    func.func @forward(%w: ... {binade.role = #binade.role<parameter>}) -> (
        tensor<f32> {binade.role = #binade.role<metric>})
    ```
  }];
}

def RecognizeGradientsPass
    : Pass<"binade-recognize-gradients", "::mlir::ModuleOp"> {
  let summary = "rewrite spelled-out gradients to the ops that they are";
  let description = [{
    The backward part of `@gradient`, as a graph brought it along, has the gradients of
    composites op by op. Where the formula is that of a gradient to the last factor, one
    op takes its place:

    - `softmax_grad`: `dy y - y sum(dy y)`, y a `softmax`;
    - `log_softmax_grad`: `dy - exp(y) sum(dy)`, y a `log_softmax`;
    - `conv_weight_grad`: a convolution of batches in the place of channels, its strides
      and dilations exchanged.

    The new op's location names all nodes that it stands for.

    Example:

    ```mlir
    %y = binade.softmax %x : ...
    %p = binade.mul %dy, %y : ...
    %s = binade.reduce_sum %p {axes = array<i64: 1>} : ...
    %b = binade.broadcast %s {axes = array<i64: 0>} : ...
    %q = binade.mul %y, %b : ...
    %dx = binade.sub %p, %q : ...         // becomes binade.softmax_grad %dy, %y
    ```
  }];
}

#endif // BINADE_RECOVERY_PASSES_TD
