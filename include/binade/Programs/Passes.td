//===- Passes.td - Programs passes ----------------------------------------===//

#ifndef BINADE_PROGRAMS_PASSES_TD
#define BINADE_PROGRAMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def AccumulateGradientsPass
    : Pass<"binade-accumulate-gradients", "::mlir::ModuleOp"> {
  let summary = "Accumulate the gradients of several batches per update";
  let description = [{
    Gradient accumulation trains with a larger batch than memory allows: the gradients of
    several batches are added up, and one update uses their mean.

    The pass adds a function `@accumulate` to the module: the forward and the backward pass
    of one batch, whose gradients are added to accumulators (arguments and results of role
    `accumulator`). The runtime executes `@accumulate` for `batches` - 1 batches, and
    then `@step`, which adds the gradients of the last batch, computes the statistics of
    the sums, and updates with `unscale_factor` dividing by `batches`. `@accumulate`
    advances running statistics and the random state; optimizer states and loss scale
    change in `@step` only.

    Sums are computed in f32 and rounded to the format of the accumulator between batches
    (`accumulator` of the update's `#binade.storage`, f32 by default). The optimizer reads
    the sum before it is rounded. Rules of loss scaling that look at the gradients
    themselves see those of the last batch.

    Example:

    ```mlir
    // Before: --binade-accumulate-gradients=batches=4
    binade.optimizer @plain {states = [], hypers = []}
    func.func private @plain.scalars(%step: i64) {
      return
    }
    func.func private @plain.update(%p: f32, %g: f32) -> f32 {
      %q = arith.subf %p, %g : f32
      return %q : f32
    }
    func.func @step(
        %w: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        %x: tensor<2xf32> {binade.name = "x", binade.role = #binade.role<batch>})
        -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
            tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
      %loss = binade.reduce_mean %w {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
      %g = binade.mul %x, %x {binade.phase = #binade.phase<backward>}
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %factor = binade.unscale_factor {binade.phase = #binade.phase<optimizer>} : () -> tensor<f32>
      %new = binade.optimizer_update @plain %w, %g factors(%factor)
          {binade.phase = #binade.phase<optimizer>}
          : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
      return %loss, %new : tensor<f32>, tensor<2xf32>
    }
    ```

    ```mlir
    // After
    binade.optimizer @plain {hypers = [], states = []}
    func.func private @plain.scalars(%step: i64) {
      return
    }
    func.func private @plain.update(%p: f32, %g: f32) -> f32 {
      %0 = arith.subf %p, %g : f32
      return %0 : f32
    }
    func.func @step(
        %w: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        %w_sum: tensor<2xf32> {binade.name = "w",
                               binade.init = dense<0.0> : tensor<2xf32>,
                               binade.role = #binade.role<accumulator>},
        %x: tensor<2xf32> {binade.name = "x", binade.role = #binade.role<batch>})
        -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
            tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
      %0 = binade.reduce_mean %w {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
      %1 = binade.mul %x, %x {binade.phase = #binade.phase<backward>}
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %2 = binade.add %w_sum, %1 {binade.phase = #binade.phase<backward>}
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %3 = binade.unscale_factor {batches = 4, binade.phase = #binade.phase<optimizer>}
          : () -> tensor<f32>
      %new_parameter = binade.optimizer_update @plain %w, %2 factors(%3)
          {binade.phase = #binade.phase<optimizer>}
          : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
      return %0, %new_parameter : tensor<f32>, tensor<2xf32>
    }
    func.func @accumulate(
        %w: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        %w_sum: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<accumulator>},
        %x: tensor<2xf32> {binade.name = "x", binade.role = #binade.role<batch>})
        -> (tensor<2xf32> {binade.name = "w", binade.role = #binade.role<accumulator>},
            tensor<f32> {binade.name = "batch_loss", binade.role = #binade.role<metric>})
        attributes {binade.batches = 4} {
      %0 = binade.reduce_mean %w {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
      %1 = binade.mul %x, %x {binade.phase = #binade.phase<backward>}
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %2 = binade.add %w_sum, %1 {binade.phase = #binade.phase<backward>}
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      return %2, %0 : tensor<2xf32>, tensor<f32>
    }
    ```

    Requires: `@step`. Run after `binade-materialize-precision`, so that `@accumulate`
    computes in the formats of the step.

    Preserves: `@step` if `batches` is 1.
  }];
  let options = [
    Option<"batches", "batches", "int64_t", "1",
           "Number of batches whose gradients one update averages.">
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def AccumulateInMomentumPass
    : Pass<"binade-accumulate-in-momentum", "::mlir::ModuleOp"> {
  let summary = "Accumulate the gradients of several batches in the optimizer state";
  let description = [{
    Gradient accumulation usually needs one accumulator per parameter. Optimizers with
    momentum can add the gradient of each batch to the momentum instead, which saves the
    accumulators.

    The pass adds a function `@accumulate`, as `binade-accumulate-gradients` does, that
    updates the optimizer states. This is exact for rules whose states are `m' = F(p, m) +
    b g` and whose parameter depends on the gradient only through `m'`: the first of
    `batches` gradients is applied to `m`, the others are added to the result. Momentum
    SGD, Signum and Tiger are such rules; Adam and Lion are not. A rule that is not, by its
    formulas, is an error that names the line of the rule. Two rules are derived:
    `@<rule>.add` for `@accumulate`, and `@<rule>.finish` for `@step`.

    The global norm of the summed gradient is never computed. So clipping is an error, and
    the metric `grad_norm` is that of the last batch. If non-finite gradients are skipped,
    a batch with such a gradient and all later batches of the step are left out, and the
    parameters keep their values in this step.

    Example:

    ```mlir
    // Before: --binade-accumulate-in-momentum=batches=4
    binade.optimizer @momentum {states = [#binade.setting<"m" = 0.0>],
                                hypers = [#binade.setting<"decay" = 0.5>]}
    func.func private @momentum.scalars(%step: i64, %decay: f64) -> f64 {
      return %decay : f64
    }
    func.func private @momentum.update(%p: f32, %g: f32, %m: f32, %decay: f32) -> (f32, f32) {
      %decayed = arith.mulf %decay, %m : f32
      %m_new = arith.addf %decayed, %g : f32
      %q = arith.subf %p, %m_new : f32
      return %q, %m_new : f32, f32
    }
    func.func @step(
        %w: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        %m: tensor<2xf32> {binade.name = "m/w", binade.role = #binade.role<state>},
        %step: tensor<i64> {binade.name = "step", binade.role = #binade.role<step>},
        %x: tensor<2xf32> {binade.name = "x", binade.role = #binade.role<batch>},
        %decay: tensor<f64> {binade.name = "decay", binade.init = dense<0.5> : tensor<f64>,
                             binade.role = #binade.role<hyper>})
        -> (tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
            tensor<2xf32> {binade.name = "m/w", binade.role = #binade.role<state>}) {
      %g = binade.mul %x, %x {binade.phase = #binade.phase<backward>}
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %factor = binade.unscale_factor {binade.phase = #binade.phase<optimizer>} : () -> tensor<f32>
      %k = binade.optimizer_scalars @momentum(%step, %decay)
          {binade.phase = #binade.phase<optimizer>} : (tensor<i64>, tensor<f64>) -> tensor<f32>
      %new:2 = binade.optimizer_update @momentum %w, %g states(%m) scalars(%k) factors(%factor)
          {binade.phase = #binade.phase<optimizer>}
          : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>)
            -> (tensor<2xf32>, tensor<2xf32>)
      return %new#0, %new#1 : tensor<2xf32>, tensor<2xf32>
    }
    ```

    ```mlir
    // After
    binade.optimizer @momentum.add {
      hypers = [#binade.setting<"decay" = 0.5>, #binade.setting<"is_first" = 0.0>],
      states = [#binade.setting<"m" = 0.0>]}
    binade.optimizer @momentum.finish {
      hypers = [#binade.setting<"decay" = 0.5>, #binade.setting<"is_first" = 0.0>],
      states = [#binade.setting<"m" = 0.0>]}
    binade.optimizer @momentum {
      hypers = [#binade.setting<"decay" = 0.5>],
      states = [#binade.setting<"m" = 0.0>]}
    func.func private @momentum.scalars(%step: i64, %decay: f64) -> f64 {
      return %decay : f64
    }
    func.func private @momentum.finish.scalars(
        %step: i64, %decay: f64, %is_first: f64) -> (f64, f64) {
      return %decay, %is_first : f64, f64
    }
    func.func private @momentum.add.scalars(
        %step: i64, %decay: f64, %is_first: f64) -> (f64, f64) {
      return %decay, %is_first : f64, f64
    }
    func.func private @momentum.update(%p: f32, %g: f32, %m: f32, %decay: f32) -> (f32, f32) {
      %0 = arith.mulf %decay, %m : f32
      %1 = arith.addf %0, %g : f32
      %2 = arith.subf %p, %1 : f32
      return %2, %1 : f32, f32
    }
    func.func private @momentum.finish.update(
        %p: f32, %g: f32, %m: f32, %decay: f32, %is_first: f32)
        -> (f32, f32) {
      %0 = arith.mulf %decay, %m : f32
      %1 = arith.addf %0, %g : f32
      %cst = arith.constant 0.0 : f32
      %2 = arith.cmpf one, %is_first, %cst : f32
      %3 = arith.addf %m, %g : f32
      %4 = arith.select %2, %1, %3 : f32
      %5 = arith.subf %p, %4 : f32
      return %5, %4 : f32, f32
    }
    func.func private @momentum.add.update(
        %p: f32, %g: f32, %m: f32, %decay: f32, %is_first: f32)
        -> (f32, f32) {
      %0 = arith.mulf %decay, %m : f32
      %1 = arith.addf %0, %g : f32
      %cst = arith.constant 0.0 : f32
      %2 = arith.cmpf one, %is_first, %cst : f32
      %3 = arith.addf %m, %g : f32
      %4 = arith.select %2, %1, %3 : f32
      %5 = arith.subf %p, %4 : f32
      return %p, %4 : f32, f32
    }
    func.func @step(
        %w: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        %m_w: tensor<2xf32> {binade.name = "m/w", binade.role = #binade.role<state>},
        %step: tensor<i64> {binade.name = "step", binade.role = #binade.role<step>},
        %batches: tensor<f64> {binade.name = "batches",
                               binade.init = dense<0.0> : tensor<f64>,
                               binade.role = #binade.role<accumulator>},
        %x: tensor<2xf32> {binade.name = "x", binade.role = #binade.role<batch>},
        %decay: tensor<f64> {binade.name = "decay",
                             binade.init = dense<0.5> : tensor<f64>,
                             binade.role = #binade.role<hyper>})
        -> (tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
            tensor<2xf32> {binade.name = "m/w", binade.role = #binade.role<state>}) {
      %0 = binade.constant {binade.phase = #binade.phase<optimizer>} dense<1.0> : tensor<f64>
      %1 = binade.add %batches, %0 {binade.phase = #binade.phase<optimizer>}
          : (tensor<f64>, tensor<f64>) -> tensor<f64>
      %2 = binade.min %batches, %0 {binade.phase = #binade.phase<optimizer>}
          : (tensor<f64>, tensor<f64>) -> tensor<f64>
      %3 = binade.sub %0, %2 {binade.phase = #binade.phase<optimizer>}
          : (tensor<f64>, tensor<f64>) -> tensor<f64>
      %4 = binade.mul %x, %x {binade.phase = #binade.phase<backward>}
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %5 = binade.unscale_factor {batches = 4, binade.phase = #binade.phase<optimizer>}
          : () -> tensor<f32>
      %6:2 = binade.optimizer_scalars @momentum.finish(%step, %decay, %3)
          {binade.phase = #binade.phase<optimizer>}
          : (tensor<i64>, tensor<f64>, tensor<f64>) -> (tensor<f32>, tensor<f32>)
      %new_parameter, %new_states = binade.optimizer_update @momentum.finish %w,
        %4 states(%m_w) scalars(%6#0, %6#1) factors(%5)
          {binade.phase = #binade.phase<optimizer>}
          : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>,
            tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)
      return %new_parameter, %new_states : tensor<2xf32>, tensor<2xf32>
    }
    func.func @accumulate(
        %w: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        %m_w: tensor<2xf32> {binade.name = "m/w", binade.role = #binade.role<state>},
        %step: tensor<i64> {binade.name = "step", binade.role = #binade.role<step>},
        %batches: tensor<f64> {binade.name = "batches", binade.role = #binade.role<accumulator>},
        %x: tensor<2xf32> {binade.name = "x", binade.role = #binade.role<batch>},
        %decay: tensor<f64> {binade.name = "decay", binade.role = #binade.role<hyper>})
        -> (tensor<f64> {binade.name = "batches", binade.role = #binade.role<accumulator>},
            tensor<2xf32> {binade.name = "m/w", binade.role = #binade.role<state>})
        attributes {binade.batches = 4} {
      %0 = binade.constant {binade.phase = #binade.phase<optimizer>} dense<1.0> : tensor<f64>
      %1 = binade.add %batches, %0 {binade.phase = #binade.phase<optimizer>}
          : (tensor<f64>, tensor<f64>) -> tensor<f64>
      %2 = binade.min %batches, %0 {binade.phase = #binade.phase<optimizer>}
          : (tensor<f64>, tensor<f64>) -> tensor<f64>
      %3 = binade.sub %0, %2 {binade.phase = #binade.phase<optimizer>}
          : (tensor<f64>, tensor<f64>) -> tensor<f64>
      %4 = binade.mul %x, %x {binade.phase = #binade.phase<backward>}
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %5 = binade.unscale_factor {batches = 4, binade.phase = #binade.phase<optimizer>}
          : () -> tensor<f32>
      %6:2 = binade.optimizer_scalars @momentum.add(%step, %decay, %3)
          {binade.phase = #binade.phase<optimizer>}
          : (tensor<i64>, tensor<f64>, tensor<f64>) -> (tensor<f32>, tensor<f32>)
      %new_parameter, %new_states = binade.optimizer_update @momentum.add %w,
        %4 states(%m_w) scalars(%6#0, %6#1) factors(%5)
          {binade.phase = #binade.phase<optimizer>}
          : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>,
            tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)
      return %1, %new_states : tensor<f64>, tensor<2xf32>
    }
    ```

    Requires: `@step`. Run after `binade-materialize-precision`.

    Preserves: `@step` if `batches` is 1.
  }];
  let options = [
    Option<"batches", "batches", "int64_t", "1",
           "Number of batches whose gradients one update averages.">
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def ExtractEvaluationPass
    : Pass<"binade-extract-evaluation", "::mlir::ModuleOp"> {
  let summary = "Add a function that computes the loss in evaluation mode";
  let description = [{
    Validation needs the loss of the model in evaluation mode, in the formats in which it
    is trained, and without gradients or updates.

    The pass adds a function `@evaluate` with the ops of `@step` that the metric `loss`
    depends on, and with the arguments that these read. The result is called `eval_loss`.
    Ops that behave differently in evaluation (`TrainingOpInterface`) are replaced: dropout
    returns its operand, batch normalization uses the running statistics, or those of the
    batch where the model keeps none. Parameters whose optimizer rule has a state
    `evaluation_offset` are replaced by their sum with this state. A step without a loss
    gets no `@evaluate`.

    Example:

    ```mlir
    // Before
    func.func @step(
        %w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        %rng: tensor<2xi64> {binade.name = "rng", binade.role = #binade.role<rng>},
        %x: tensor<4xf32> {binade.name = "x", binade.role = #binade.role<batch>})
        -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
            tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
      %y = binade.dropout %x, %rng {ratio = 0.5, stream = 0}
          : (tensor<4xf32>, tensor<2xi64>) -> tensor<4xf32>
      %loss = binade.reduce_mean %y {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      %next = binade.sub %w, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %loss, %next : tensor<f32>, tensor<4xf32>
    }
    ```

    ```mlir
    // After
    func.func @step(
        %w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        %rng: tensor<2xi64> {binade.name = "rng", binade.role = #binade.role<rng>},
        %x: tensor<4xf32> {binade.name = "x", binade.role = #binade.role<batch>})
        -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
            tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
      %0 = binade.dropout %x, %rng {ratio = 0.5, stream = 0}
          : (tensor<4xf32>, tensor<2xi64>) -> tensor<4xf32>
      %1 = binade.reduce_mean %0 {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      %2 = binade.sub %w, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %1, %2 : tensor<f32>, tensor<4xf32>
    }
    func.func @evaluate(
        %x: tensor<4xf32> {binade.name = "x", binade.role = #binade.role<batch>})
        -> (tensor<f32> {binade.name = "eval_loss", binade.role = #binade.role<metric>}) {
      %0 = binade.reduce_mean %x {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    ```

    Requires: `@step`. Run after `binade-materialize-precision`.

    Preserves: all other functions.
  }];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def AddEvaluationMetricsPass
    : Pass<"binade-add-evaluation-metrics", "::mlir::ModuleOp"> {
  let summary = "Add metrics of a classifier to the evaluation";
  let description = [{
    The loss alone does not say how often a classifier is right. Metrics of a data set
    follow from sums over each batch, which need the logits and labels of the loss.

    The pass adds results to `@evaluate` from which the runtime computes the requested
    `metrics`. They are about the labels that the loss does not ignore:

    - `eval_labels`, their number, and `eval_entropy`, the sum of their cross-entropies, for
      every request. `labels` requests only these, and nothing if the loss is not a
      cross-entropy.
    - `eval_topK`, how many of them are among the K classes with the largest logits, for
      `topK`, and with K = 1 for `accuracy`. Of equal logits, that of the class with the
      smaller number counts as larger. A label whose logit is NaN is not counted, and a NaN
      counts as larger than all other logits.
    - `eval_perplexity`, the exponential of the mean cross-entropy, for `perplexity`.

    Numbers of labels are exact for less than 2^24 labels per batch. A metric other than
    `labels` is an error unless the loss contains exactly one cross-entropy.

    Example:

    ```mlir
    // Before: --binade-add-evaluation-metrics=metrics=perplexity
    func.func @evaluate(
        %x: tensor<4x3xf32> {binade.name = "x", binade.role = #binade.role<batch>},
        %y: tensor<4xi64> {binade.name = "y", binade.role = #binade.role<batch>})
        -> (tensor<f32> {binade.name = "eval_loss", binade.role = #binade.role<metric>}) {
      %losses, %maximum, %logarithm = binade.cross_entropy %x, %y {ignore_index = -100}
          : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      %loss = binade.reduce_mean %losses {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    }
    ```

    ```mlir
    // After
    func.func @evaluate(
        %x: tensor<4x3xf32> {binade.name = "x", binade.role = #binade.role<batch>},
        %y: tensor<4xi64> {binade.name = "y", binade.role = #binade.role<batch>})
        -> (tensor<f32> {binade.name = "eval_loss", binade.role = #binade.role<metric>},
            tensor<f32> {binade.name = "eval_labels", binade.role = #binade.role<metric>},
            tensor<f32> {binade.name = "eval_entropy", binade.role = #binade.role<metric>},
            tensor<f32> {binade.name = "eval_perplexity", binade.role = #binade.role<metric>}) {
      %losses, %maximum, %logarithm = binade.cross_entropy %x, %y {ignore_index = -100}
          : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      %0 = binade.reduce_mean %losses {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      %1 = binade.constant dense<-100> : tensor<4xi64>
      %2 = binade.compare %y, %1 {comparison = #binade.comparison<equal>}
          : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
      %3 = binade.not %2 : (tensor<4xi1>) -> tensor<4xi1>
      %4 = binade.cast %3 : (tensor<4xi1>) -> tensor<4xf32>
      %5 = binade.reduce_sum %4 {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      %6 = binade.reduce_sum %losses {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      %7 = binade.div %6, %5 : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %8 = binade.exp %7 : (tensor<f32>) -> tensor<f32>
      return %0, %5, %6, %8 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
    }
    ```

    Requires: `@evaluate`, with composite ops. Run after `binade-hash-computation`: metrics
    do not change the hash, so that a run may be resumed with others.

    Preserves: all other functions.
  }];
  let options = [
    ListOption<"metrics", "metrics", "std::string",
               "Metrics to compute: 'accuracy', 'topK', such as 'top5', 'perplexity' or "
               "'labels'.">,
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def ExchangeGradientsPass
    : Pass<"binade-exchange-gradients", "::mlir::ModuleOp"> {
  let summary = "Exchange gradients between the ranks of a group";
  let description = [{
    Several processes, the ranks of a group, train one model: each executes the same step
    on other batches, and all update by the mean gradient of all batches.

    The pass inserts `binade.exchange` between the gradients and the optimizer: from then
    on, norm, overflow check and updates read sums over all ranks. `batches` is the number
    of batches of a step of all ranks together, whatever their number: `unscale_factor`
    divides by it. With more than one, the pass also accumulates the gradients of the
    batches of a rank, as `binade-accumulate-gradients` does or, with the format `exact`, in
    fixed-point sums (`binade.exchange_add`), which do not depend on how batches are
    divided among ranks.

    Gradients are ordered by when they are complete, and divided into buckets of at least
    `bucket-bytes`, so that a bucket can be exchanged during the rest of the backward pass. Also
    exchanged are the magnitudes of delayed scales. Updates draw random numbers as if one
    process had computed all batches.

    Example:

    ```mlir
    // Before: --binade-exchange-gradients
    binade.optimizer @plain {states = [], hypers = []}
    func.func private @plain.scalars(%step: i64) {
      return
    }
    func.func private @plain.update(%p: f32, %g: f32) -> f32 {
      %q = arith.subf %p, %g : f32
      return %q : f32
    }
    func.func @step(
        %w: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        %x: tensor<2xf32> {binade.name = "x", binade.role = #binade.role<batch>})
        -> (tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
      %g = binade.mul %x, %x {binade.phase = #binade.phase<backward>}
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %new = binade.optimizer_update @plain %w, %g {binade.phase = #binade.phase<optimizer>}
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      return %new : tensor<2xf32>
    }
    ```

    ```mlir
    // After
    binade.optimizer @plain {hypers = [], states = []}
    func.func private @plain.scalars(%step: i64) {
      return
    }
    func.func private @plain.update(%p: f32, %g: f32) -> f32 {
      %0 = arith.subf %p, %g : f32
      return %0 : f32
    }
    func.func @step(
        %w: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        %x: tensor<2xf32> {binade.name = "x", binade.role = #binade.role<batch>})
        -> (tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
      %0 = binade.mul %x, %x {binade.phase = #binade.phase<backward>}
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %exchanged = binade.exchange f32 gradients(%0)
          {binade.phase = #binade.phase<backward>, buckets = array<i64: 1>}
          : (tensor<2xf32>) -> tensor<2xf32>
      %new_parameter = binade.optimizer_update @plain %w, %exchanged
          {binade.phase = #binade.phase<optimizer>}
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      return %new_parameter : tensor<2xf32>
    }
    ```

    Requires: `@step`, without other accumulation of gradients. Run after
    `binade-materialize-precision`.

    Preserves: a step that exchanges already. It is an error if a state would depend on
    values that ranks do not exchange.
  }];
  let options = [
    Option<"format", "format", "std::string", "\"f32\"",
           "Format of exchanged gradients: f32, bf16, e4m3, exact, or policy for that of "
           "the policy.">,
    Option<"batches", "batches", "int64_t", "1",
           "Number of batches of a step, of all ranks together.">,
    Option<"bucketBytes", "bucket-bytes", "int64_t", "0",
           "Smallest size of a bucket; 0 for an eighth of all gradients, at most 25 MiB.">
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def HashComputationPass
    : Pass<"binade-hash-computation", "::mlir::ModuleOp"> {
  let summary = "Attach a hash of the computation to the module";
  let description = [{
    A run must not continue from the checkpoint of another computation, and a search over
    policies should not measure the same computation twice.

    The pass sets the module's attribute `binade.computation` to the SHA-256 of the text of
    all programs, without initial values, locations, and the policy and rule that decided
    about a format. Equal hashes mean equal computations.

    Example:

    ```mlir
    // Before
    module {
      func.func @step(
          %w: tensor<4xf32> {binade.name = "w", binade.init = dense<1.0> : tensor<4xf32>,
                             binade.role = #binade.role<parameter>})
          -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
        %0 = binade.mul %w, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }
    ```

    ```mlir
    // After
    module attributes {binade.computation =
        "35599c56301ff388ec40d790f8b2d3e2372c73e4b4d0b786e5844293ecd53315"} {
      func.func @step(
          %w: tensor<4xf32> {binade.name = "w",
                             binade.init = dense<1.0> : tensor<4xf32>,
                             binade.role = #binade.role<parameter>})
          -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
        %0 = binade.mul %w, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }
    ```

    Requires: all programs of the module. Run before statistics are inserted
    (`binade-insert-statistics`) and before a target is set (`binade-set-cuda-target`): the
    hash depends on neither.

    Preserves: everything else.
  }];
}

#endif // BINADE_PROGRAMS_PASSES_TD
