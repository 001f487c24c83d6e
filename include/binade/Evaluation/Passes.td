//===- Passes.td - passes of the Evaluation station -----------------------===//

#ifndef BINADE_EVALUATION_PASSES_TD
#define BINADE_EVALUATION_PASSES_TD

include "mlir/Pass/PassBase.td"

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

#endif // BINADE_EVALUATION_PASSES_TD
