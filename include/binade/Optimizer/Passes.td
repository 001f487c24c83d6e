//===- Passes.td - Optimizer passes ---------------------------------------===//

#ifndef BINADE_OPTIMIZER_PASSES_TD
#define BINADE_OPTIMIZER_PASSES_TD

include "mlir/Pass/PassBase.td"

def MatchOptimizerRulesPass : Pass<"binade-match-optimizer-rules", "::mlir::ModuleOp"> {
  let summary = "Replace imported optimizer rules by the equal rules of the library";
  let description = [{
    A graph that was exported with its optimizer step has the update written out op by op,
    in f32, with hyper-parameters as constants. `binade-split-training-step` turns such an update
    into a rule of the module (`binade.optimizer`). Most of these rules are optimizers that
    Binade ships: with the shipped rule, hyper-parameters can be changed and precision
    policies know the optimizer states.

    The pass compares each imported rule that a parameter of `@gradient` names (attribute
    `binade.optimizer`) with the formulas under `lib/Optimizer/Patterns`. On a match it
    replaces the rule by that of the library, and stores the hyper-parameters that it
    found as defaults. A rule matches only if every constant of it follows, rounded to
    f32, from these hyper-parameters. A rule without a match stays.

    Example: gradient descent with a learning rate of 0.5.

    ```mlir
    // Before
    binade.optimizer @imported {states = [], hypers = []}
    func.func private @imported.scalars(%step: i64) {
      return
    }
    func.func private @imported.update(%p: f32, %g: f32) -> f32 {
      %rate = arith.constant 0.5 : f32
      %change = arith.mulf %rate, %g : f32
      %q = arith.subf %p, %change : f32
      return %q : f32
    }
    func.func @gradient(
        %w: tensor<4xf32> {binade.name = "w", binade.optimizer = @imported,
                           binade.role = #binade.role<parameter>},
        %g: tensor<4xf32> {binade.name = "g", binade.role = #binade.role<batch>})
        -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
      return %g : tensor<4xf32>
    }
    ```

    ```mlir
    // After
    binade.optimizer @sgd {
      hypers = [#binade.setting<"lr" = 0.5 min 0.0>, #binade.setting<"momentum" = 0.0 min 0.0>,
        #binade.setting<"dampening" = 0.0>, #binade.setting<"weight_decay" = 0.0 min 0.0>,
        #binade.setting<"nesterov" = 0.0 min 0.0 max 1.0>],
      states = [#binade.setting<"momentum_buffer" = 0.0>]}
    func.func private @sgd.scalars(
        %step: i64, %lr: f64, %momentum: f64, %dampening: f64, %weight_decay: f64, %nesterov: f64)
        -> (f64, f64, f64, f64, f64, f64) {
      %cst = arith.constant 0.0 : f64
      %cst_0 = arith.constant 1.0 : f64
      %c1_i64 = arith.constant 1 : i64
      %0 = arith.cmpi eq, %step, %c1_i64 : i64
      %1 = arith.cmpf oeq, %momentum, %cst : f64
      %2 = arith.ori %0, %1 : i1
      %3 = arith.subf %cst_0, %dampening : f64
      %4 = arith.select %2, %cst_0, %3 : f64
      %5 = arith.cmpf one, %nesterov, %cst : f64
      %6 = arith.select %5, %cst_0, %cst : f64
      %7 = arith.select %5, %momentum, %cst_0 : f64
      return %lr, %momentum, %4, %weight_decay, %6, %7 : f64, f64, f64, f64, f64, f64
    }
    func.func private @sgd.update(
        %p: f32, %g: f32, %m: f32, %lr: f32, %momentum: f32, %keep: f32, %weight_decay: f32,
          %ahead: f32, %reach: f32)
        -> (f32, f32) {
      %0 = arith.mulf %weight_decay, %p : f32
      %1 = arith.addf %g, %0 : f32
      %2 = arith.mulf %momentum, %m : f32
      %3 = arith.mulf %keep, %1 : f32
      %4 = arith.addf %2, %3 : f32
      %5 = arith.mulf %ahead, %1 : f32
      %6 = arith.mulf %reach, %4 : f32
      %7 = arith.addf %5, %6 : f32
      %8 = arith.mulf %lr, %7 : f32
      %9 = arith.subf %p, %8 : f32
      return %9, %4 : f32, f32
    }
    func.func @gradient(
        %w: tensor<4xf32> {binade.name = "w",
                           binade.optimizer = @sgd,
                           binade.role = #binade.role<parameter>},
        %g: tensor<4xf32> {binade.name = "g", binade.role = #binade.role<batch>})
        -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
      return %g : tensor<4xf32>
    }
    ```

    Requires: `binade-split-training-step`. Run before `binade-append-optimizer`.

    Preserves: the update as a function of real numbers. Its rounding changes: the library
    computes scalars such as 1 - 0.999^t in f64, the imported formula in f32.
  }];
}

def AppendOptimizerPass : Pass<"binade-append-optimizer", "::mlir::ModuleOp"> {
  let summary = "Append the optimizer update of every parameter";
  let description = [{
    A training step consists of the forward pass, the backward pass and the optimizer
    update. `@gradient` has the first two.

    The pass turns `@gradient` into `@step`. It adds arguments for the optimizer states,
    the step count and the hyper-parameters, one `binade.gradient_statistics` over all
    gradients, one `binade.optimizer_scalars` per group of parameters with equal
    hyper-parameters, and one `binade.optimizer_update` per parameter. Results of the step
    replace the arguments of the same role and name: parameters, states and step count.
    Metrics are `loss`, `grad_norm` (the global norm before clipping) and `found_inf`.

    `optimizer` names a rule that Binade ships (`adamw`, or `lion:VARIANT` for other
    defaults) or a rule file. Without it each parameter is updated by the rule in its
    attribute `binade.optimizer`, which imported training graphs have, and by `adamw` where
    it has none. `settings` sets hyper-parameters of all parameters, `group` those of
    parameters whose names match a glob; the last match wins, and a glob that matches no
    parameter is an error. `form=NAME` in either selects the rule's function
    `.prepare.NAME` (see `binade.optimizer`). With `decay=matrices`, `weight_decay` is 0
    for parameters with fewer than two axes, such as biases and the weights of norms; a
    group that sets `weight_decay` overrides this.

    `on-nonfinite` says what a step does whose gradients contain NaN or infinity. `skip`:
    parameters, states and step count keep their values. `continue`: the update is applied,
    and there is no metric `found_inf`. `shrink`: the rule's functions `.shrink` are
    applied, and the metric is called `answered_inf`.

    Example: gradient descent by a rule of the module.

    ```mlir
    // Before
    binade.optimizer @descent {states = [], hypers = [#binade.setting<"lr" = 0.5 min 0.0>]}
    func.func private @descent.scalars(%step: i64, %lr: f64) -> f64 {
      return %lr : f64
    }
    func.func private @descent.update(%p: f32, %g: f32, %lr: f32) -> f32 {
      %change = arith.mulf %lr, %g : f32
      %q = arith.subf %p, %change : f32
      return %q : f32
    }
    func.func @gradient(
        %w: tensor<4xf32> {binade.name = "w", binade.optimizer = @descent,
                           binade.role = #binade.role<parameter>},
        %g: tensor<4xf32> {binade.name = "g", binade.role = #binade.role<batch>})
        -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
      return %g : tensor<4xf32>
    }
    ```

    ```mlir
    // After
    binade.optimizer @descent {hypers = [#binade.setting<"lr" = 0.5 min 0.0>], states = []}
    func.func private @descent.scalars(%step: i64, %lr: f64) -> f64 {
      return %lr : f64
    }
    func.func private @descent.update(%p: f32, %g: f32, %lr: f32) -> f32 {
      %0 = arith.mulf %lr, %g : f32
      %1 = arith.subf %p, %0 : f32
      return %1 : f32
    }
    func.func @step(
        %w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        %step: tensor<i64> {binade.name = "step",
                            binade.init = dense<0> : tensor<i64>,
                            binade.role = #binade.role<step>},
        %g: tensor<4xf32> {binade.name = "g", binade.role = #binade.role<batch>},
        %lr: tensor<f64> {binade.name = "lr",
                          binade.init = dense<0.5> : tensor<f64>,
                          binade.role = #binade.role<hyper>})
        -> (tensor<f32> {binade.name = "grad_norm", binade.role = #binade.role<metric>},
            tensor<i1> {binade.name = "found_inf", binade.role = #binade.role<metric>},
            tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
            tensor<i64> {binade.name = "step", binade.role = #binade.role<step>}) {
      %squares, %found_inf = binade.gradient_statistics %g {binade.phase = #binade.phase<optimizer>}
          : (tensor<4xf32>) -> (tensor<f64>, tensor<i1>)
      %0 = binade.unscale_factor {binade.phase = #binade.phase<optimizer>} : () -> tensor<f32>
      %1 = binade.sqrt %squares {binade.phase = #binade.phase<optimizer>}
          : (tensor<f64>) -> tensor<f64>
      %2 = binade.cast %0 {binade.phase = #binade.phase<optimizer>} : (tensor<f32>) -> tensor<f64>
      %3 = binade.mul %1, %2 {binade.phase = #binade.phase<optimizer>}
          : (tensor<f64>, tensor<f64>) -> tensor<f64>
      %4 = binade.cast %3 {binade.phase = #binade.phase<optimizer>} : (tensor<f64>) -> tensor<f32>
      %5 = binade.constant dense<1.8446742974197924E+19> : tensor<f64>
      %6 = binade.compare %3, %5
          {binade.phase = #binade.phase<optimizer>, comparison = #binade.comparison<greater>}
          : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %7 = binade.select %6, %6, %found_inf {binade.phase = #binade.phase<optimizer>}
          : (tensor<i1>, tensor<i1>, tensor<i1>) -> tensor<i1>
      %8 = binade.optimizer_scalars @descent(%step, %lr) {binade.phase = #binade.phase<optimizer>}
          : (tensor<i64>, tensor<f64>) -> tensor<f32>
      %new_parameter = binade.optimizer_update @descent %w, %g scalars(%8) factors(%0) skip(%7)
          {binade.phase = #binade.phase<optimizer>}
          : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<i1>) -> tensor<4xf32>
      %9 = binade.constant dense<1> : tensor<i64>
      %10 = binade.add %step, %9 {binade.phase = #binade.phase<optimizer>}
          : (tensor<i64>, tensor<i64>) -> tensor<i64>
      %11 = binade.select %7, %step, %10 {binade.phase = #binade.phase<optimizer>}
          : (tensor<i1>, tensor<i64>, tensor<i64>) -> tensor<i64>
      return %4, %7, %new_parameter, %11 : tensor<f32>, tensor<i1>, tensor<4xf32>, tensor<i64>
    }
    ```

    Requires: `@gradient` with a result of role `gradient` for every parameter
    (`binade-build-gradient`).

    Preserves: the ops of `@gradient`. Ops of the update have the attribute
    `binade.phase = #binade.phase<optimizer>`.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", /*default=*/"",
           "Name of a rule that Binade ships, or path of a rule file.">,
    ListOption<"settings", "settings", "std::string",
               "Hyper-parameters of all parameters, each as KEY=VALUE.">,
    ListOption<"groups", "group", "std::string",
               "Hyper-parameters of the parameters whose names match a glob, "
               "as GLOB:KEY=VALUE;KEY=VALUE.">,
    Option<"decay", "decay", "std::string", /*default=*/"\"all\"",
           "Which parameters have weight decay: all, or matrices (two or more "
           "axes).">,
    Option<"clip", "clip", "double", /*default=*/"0.0",
           "Largest global norm of the gradients; larger ones are scaled down. "
           "0 means no limit.">,
    Option<"onNonfinite", "on-nonfinite", "std::string", /*default=*/"\"skip\"",
           "What a step with a non-finite gradient does: skip the update, "
           "continue with it, or shrink (apply the rule's functions of that name).">,
    Option<"keepGradients", "keep-gradients", "bool", /*default=*/"false",
           "Keep the gradients as results of the step.">,
    Option<"keepOutputs", "keep-outputs", "bool", /*default=*/"false",
           "Keep the outputs of the imported graph as results of the step.">,
  ];
}

#endif // BINADE_OPTIMIZER_PASSES_TD
