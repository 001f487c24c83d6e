//===- TrainingOpInterface.td - ops that differ in evaluation -------------===//

#ifndef BINADE_INTERFACES_TRAININGOPINTERFACE_TD
#define BINADE_INTERFACES_TRAININGOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def TrainingOpInterface : OpInterface<"TrainingOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    An op that computes something else in evaluation than in training: `dropout` and
    `batch_norm`. `binade-extract-evaluation` calls the method.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits what the op computes in evaluation, and returns one value per result,
        which may be the result itself. `getRunning` maps a statistic of the batch to its
        running estimate before the step, or to null if the model has none.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildEvaluation",
      (ins "::mlir::ImplicitLocOpBuilder &":$b,
           "::llvm::function_ref<::mlir::Value(::mlir::Value)>":$getRunning)>,
  ];
}

#endif // BINADE_INTERFACES_TRAININGOPINTERFACE_TD
