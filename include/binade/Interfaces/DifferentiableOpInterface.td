//===- DifferentiableOpInterface.td - reverse-mode derivatives ------------===//

#ifndef BINADE_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
#define BINADE_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    An op with a reverse-mode derivative (a vector-Jacobian product), which it emits
    as ops of this dialect. Ops of the forward pass implement it: elementwise ops,
    casts, contractions, convolutions, reductions, data movement, normalization,
    attention, lookups, losses and dropout. `binade-build-gradient` and
    `binade-remove-imported-backward` call it. Ops without a gradient have the trait
    `NotDifferentiable`; another op between a parameter and the loss is an error.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits the adjoint at the builder's insertion point, and returns the
        gradients of the operands: one value per operand, null where an operand
        has no gradient. `cotangents` has one value per result. Only the first
        is given: further results are statistics that the adjoint reads, and a
        loss that depends on one is an error. The adjoint may read operands and
        results of the op; the caller replaces them by `binade.save` ops.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildAdjoint",
      (ins "::mlir::ImplicitLocOpBuilder &":$b,
           "::llvm::ArrayRef<::mlir::Value>":$cotangents)>,
  ];
}

// An op without a gradient: its results are integers, booleans or random, or it
// exists only after differentiation.
def NotDifferentiable : NativeOpTrait<"NotDifferentiable"> {
  let cppNamespace = "::mlir::binade";
}

#endif // BINADE_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
