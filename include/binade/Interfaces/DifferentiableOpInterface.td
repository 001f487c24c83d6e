//===- DifferentiableOpInterface.td - reverse-mode derivatives ------------===//

#ifndef BINADE_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
#define BINADE_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    An op with a reverse-mode derivative (a vector-Jacobian product). The
    adjoint of a `binade` graph is again a `binade` graph.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits the adjoint at the builder's insertion point. `cotangents` holds
        one value per result. Only the first is given: further results
        (statistics that the adjoint reads) pass no gradient on, and
        differentiating a loss that depends on one is an error. The returned vector holds one value per operand,
        null where the operand has no gradient. Forward operands and results
        may be used freely: the caller routes them through `binade.save`.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildAdjoint",
      (ins "::mlir::ImplicitLocOpBuilder &":$b,
           "::llvm::ArrayRef<::mlir::Value>":$cotangents)>,
  ];
}

// An op through which no gradient flows: integer, boolean or random results,
// or an op that exists only after differentiation.
def NotDifferentiable : NativeOpTrait<"NotDifferentiable"> {
  let cppNamespace = "::mlir::binade";
}

#endif // BINADE_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
