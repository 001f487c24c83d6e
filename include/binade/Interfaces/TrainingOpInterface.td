//===- TrainingOpInterface.td - what training alone does --------*- C++ -*-===//

#ifndef BINADE_INTERFACES_TRAININGOPINTERFACE_TD
#define BINADE_INTERFACES_TRAININGOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def TrainingOpInterface : OpInterface<"TrainingOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    An op that does something else when a model is evaluated than when it is trained.
    Ops without this interface do the same.
  }];
  let methods = [
    InterfaceMethod<[{
        What evaluation has in place of the results: new values, or the results
        themselves. `getRunning` gives the running estimate of a statistic of the
        batch, from before the step; null where the model keeps none.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildEvaluation",
      (ins "::mlir::ImplicitLocOpBuilder &":$b,
           "::llvm::function_ref<::mlir::Value(::mlir::Value)>":$getRunning)>,
  ];
}

#endif // BINADE_INTERFACES_TRAININGOPINTERFACE_TD
