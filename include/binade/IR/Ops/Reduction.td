//===- Reduction.td - reductions over axes --------------------------------===//

#ifndef BINADE_IR_OPS_REDUCTION_TD
#define BINADE_IR_OPS_REDUCTION_TD

include "binade/IR/Ops/Base.td"

class Binade_ReduceOp<string mnemonic, string precisionClass>
    : Binade_PrecisionOp<mnemonic, precisionClass, [
          Pure, InferTypeOpAdaptorWithIsCompatible,
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
  let summary = "sum over axes, which the result does not keep";
  let description = [{
    Partial sums are f32, in a fixed order (16 virtual lanes, then a tree), so
    that the value does not depend on threads or vector width.
  }];
}

def Binade_ReduceMeanOp : Binade_ReduceOp<"reduce_mean", "Deny"> {
  let summary = "mean over axes, which the result does not keep";
  let extraClassDeclaration = [{
    FailureOr<SmallVector<Value>> decompose(ImplicitLocOpBuilder &b);
  }];
}

def Binade_ReduceMaxOp : Binade_ReduceOp<"reduce_max", "Clear"> {
  let summary = "maximum over axes, which the result does not keep; NaN if any is";
  let description = "The gradient is shared equally among equal maxima.";
  let extraClassDeclaration = [{
    bool ignoresMasked() { return true; }
    FailureOr<SmallVector<Value>> buildWithoutElements(ImplicitLocOpBuilder &b);
  }];
}

#endif // BINADE_IR_OPS_REDUCTION_TD
