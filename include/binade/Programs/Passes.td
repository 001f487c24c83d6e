//===- Passes.td - passes of the Programs station -------------------------===//

#ifndef BINADE_PROGRAMS_PASSES_TD
#define BINADE_PROGRAMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def AccumulateGradientsPass
    : Pass<"binade-accumulate-gradients", "::mlir::ModuleOp"> {
  let summary = "updates by the mean of the gradients of several batches";
  let description = [{
    Adds a function `@accumulate` beside `@step`: forward and backward part of one
    batch, whose gradients are added to accumulators. Running statistics and the
    generator go on in it, the optimizer and the loss scale do not. A step of
    `batches` runs it for all of them but the last, and then `@step`, which adds its
    own gradients, measures the sums and updates by their means.

    Sums are formed in f32 and rounded to the accumulator's format, in which they
    wait for the next batch: that of the update's `#binade.storage`. What the
    optimizer reads is not rounded. Statistics of gradients, which other rules of
    loss scaling go by, are those of the last batch.

    Example, with `batches=4`:

    ```mlir
    func.func @accumulate(%w: ..., %sum: tensor<4xf32> {binade.name = "w",
                          binade.role = #binade.role<accumulator>}, %x: ...)
        -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<accumulator>},
            tensor<f32> {binade.name = "batch_loss", binade.role = #binade.role<metric>})
        attributes {binade.batches = 4 : i64}
    ```
  }];
  let options = [
    Option<"batches", "batches", "int64_t", "1",
           "Whose gradients one update takes the mean of">
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def AccumulateInMomentumPass
    : Pass<"binade-accumulate-in-momentum", "::mlir::ModuleOp"> {
  let summary = "updates by several batches, whose gradients states take in";
  let description = [{
    As `binade-accumulate-gradients`, but no sum of gradients is kept: each batch's
    gradient is added to the optimizer's states at once. That is right for rules
    whose states are `m' = F(p, m) + b g`, and whose parameter reads the gradient by
    `m'` alone: the first of `batches` gradients meets `m`, the others are added to
    what it made. Whether a rule is so follows from its formulas: momentum, signum
    and Tiger are, Lion and Adam are not, which is an error with the line of the
    rule. Two rules are derived beside it, `@<rule>.add` for `@accumulate` and
    `@<rule>.finish` for `@step`.

    The gradient's global norm is never known, so there is no clipping, and
    `grad_norm` is the last batch's. Where gradients are skipped that are not
    finite, a batch that has such adds nothing, nor do those behind it in the step,
    and the parameters wait for the next step. States go on from the batches before.

    Example, with `batches=4`:

    ```mlir
    func.func @accumulate(%w: ..., %m: tensor<4xf32> {binade.name = "exp_avg/w",
                          binade.role = #binade.role<state>}, ..., %x: ...)
        -> (tensor<4xf32> {binade.name = "exp_avg/w", binade.role = #binade.role<state>},
            tensor<f64> {binade.name = "batches", binade.role = #binade.role<accumulator>},
            tensor<f32> {binade.name = "batch_loss", binade.role = #binade.role<metric>})
        attributes {binade.batches = 4 : i64}
    ```
  }];
  let options = [
    Option<"batches", "batches", "int64_t", "1",
           "Whose gradients one update takes the mean of">
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def ExtractEvaluationPass
    : Pass<"binade-extract-evaluation", "::mlir::ModuleOp"> {
  let summary = "the loss alone, as the model is evaluated";
  let description = [{
    Adds a function `@evaluate` beside `@step`: what of the step makes the metric
    `loss`, now called `eval_loss`, in the same formats, from the arguments of the
    same roles and names. Ops that do something else in training
    (`TrainingOpInterface`) do what they do in evaluation: dropout passes on what it
    reads, batch normalization takes the running statistics. A step without a loss
    has none.

    Example:

    ```mlir
    func.func @evaluate(%weight: tensor<4x4xf32> {binade.name = "weight", ...},
                        %x: tensor<2x4xf32> {binade.name = "x", ...})
        -> (tensor<f32> {binade.name = "eval_loss", binade.role = #binade.role<metric>})
    ```
  }];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def IdentifyComputationPass
    : Pass<"binade-identify-computation", "::mlir::ModuleOp"> {
  let summary = "say by a hash what is computed";
  let description = [{
    Sets `binade.computation`, the SHA-256 of the programs' text without initial values,
    and without what says who decided: by it a run knows its checkpoints, whatever target
    it goes on with, and a search knows policies that come to the same. So it is taken
    before statistics are added, and before a target has a say.
  }];
}

#endif // BINADE_PROGRAMS_PASSES_TD
