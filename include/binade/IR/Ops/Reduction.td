//===- Reduction.td - reductions over axes --------------------------------===//

#ifndef BINADE_IR_OPS_REDUCTION_TD
#define BINADE_IR_OPS_REDUCTION_TD

include "binade/IR/Ops/Base.td"

class Binade_ReduceOp<string mnemonic, string precisionClass>
    : Binade_PrecisionOp<mnemonic, precisionClass, [
          Pure, InfersTypes,
          DeclareOpInterfaceMethods<DifferentiableOpInterface>,
          DeclareOpInterfaceMethods<KernelOpInterface,
                                    ["getSchedule", "getReduced"]>,
          DeclareOpInterfaceMethods<LayoutOpInterface,
                                    ["chooseLayouts", "applyLayouts"]>]> {
  let arguments = (ins FloatTensor:$x, DenseI64ArrayAttr:$axes,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$y);
  let builders = [OpBuilder<(ins "::mlir::Value":$x,
                                 "::llvm::ArrayRef<int64_t>":$axes), [{
    build($_builder, $_state, x, axes, PrecisionAttr());
  }]>];
  let extraClassDefinition = classDefinition # [{
    Schedule $cppClass::getSchedule() {
      return getReductionSchedule(getX().getType(), getAxes());
    }
    Reduced $cppClass::getReduced() { return {llvm::to_vector(getAxes())}; }
    Layouts $cppClass::chooseLayouts(const Layouts &known) {
      return chooseReduced(*this, known, getAxes());
    }
    void $cppClass::applyLayouts(const Layouts &chosen) {
      setAxes(findAxes(chosen.operands.front(), getAxes()));
    }
    LogicalResult $cppClass::inferReturnTypes(
        MLIRContext *, std::optional<Location> location, Adaptor adaptor,
        SmallVectorImpl<Type> &types) {
      return inferReduction(location, adaptor.getX().getType(),
                            adaptor.getAxes(), types);
    }
    bool $cppClass::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
      return haveSameShapes(l, r);
    }
  }];
}

def Binade_ReduceSumOp : Binade_ReduceOp<"reduce_sum", "Deny"> {
  let extraClassDeclaration = [{
    Linearity getLinearity() { return Linearity::Joint; }
    bool sumsElements() { return true; }
    bool isMagnitude(::llvm::function_ref<bool(::mlir::Value)> holds) {
      return holds(getX());
    }
  }];
  let summary = "sum over axes, which are removed";
  let description = [{
    Partial sums are f32 (f64 for f64), in a fixed order: 16 virtual lanes, then a tree. So
    the result depends neither on the number of threads nor on the width of vectors. It is
    rounded once. NaN and infinities propagate. A sum over no elements is 0. The gradient is
    the cotangent, broadcast.

    Constraints: `axes` are distinct axes of `x`, in ascending order; without axes the
    result equals the operand.

    Example:

    ```mlir
    %y = binade.reduce_sum %x {axes = array<i64: 0>} : (tensor<8x64xf32>) -> tensor<64xf32>
    ```
  }];
}

def Binade_ReduceMeanOp : Binade_ReduceOp<"reduce_mean", "Deny"> {
  let summary = "mean over axes, which are removed";
  let description = [{
    The sum as of `reduce_sum`, divided by the number of elements, and rounded once. A mean
    over no elements is NaN. The gradient is the cotangent divided by the number of
    elements, broadcast.

    Example:

    ```mlir
    %y = binade.reduce_mean %x {axes = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
    ```
  }];
  let extraClassDeclaration = [{
    FailureOr<SmallVector<Value>> decompose(ImplicitLocOpBuilder &b);
    bool sumsElements() { return true; }
    bool isMagnitude(::llvm::function_ref<bool(::mlir::Value)> holds) {
      return holds(getX());
    }
  }];
}

def Binade_ReduceMaxOp : Binade_ReduceOp<"reduce_max", "Clear"> {
  let summary = "maximum over axes, which are removed";
  let description = [{
    The result is exact. It is NaN if any element is NaN, and minus infinity over no
    elements. The gradient is shared equally among equal maxima.

    Example:

    ```mlir
    %y = binade.reduce_max %x {axes = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
    ```
  }];
  let extraClassDeclaration = [{
    bool ignoresMasked() { return true; }
    FailureOr<SmallVector<Value>> buildWithoutElements(ImplicitLocOpBuilder &b);
  }];
}

#endif // BINADE_IR_OPS_REDUCTION_TD
