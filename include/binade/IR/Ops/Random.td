//===- Random.td - dropout and its generator ------------------------------===//

#ifndef BINADE_IR_OPS_RANDOM_TD
#define BINADE_IR_OPS_RANDOM_TD

include "binade/IR/Ops/Base.td"

def Binade_RandomUniformOp : Binade_Op<"random_uniform", [
    Pure, NotDifferentiable, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<ElementwiseOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule"]>]> {
  let summary = "uniform numbers in [0, 1) from a counter";
  let description = [{
    One number of 24 bits per element of `index`, from the seed and step that are
    broadcast beside it. Counter words: index low, index high, `stream`, step low
    32 bits; key: seed low, seed high; the first output word's top 24 bits count.
  }];
  let arguments = (ins IntegerTensor:$index, IntegerTensor:$seed, IntegerTensor:$step,
                       I64Attr:$stream);
  let results = (outs StaticF32Tensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

class Binade_DropoutLikeOp<string mnemonic, list<Trait> traits = []>
    : Binade_PrecisionOp<mnemonic, "Clear", !listconcat(traits, [
          Pure, InferTypeOpAdaptorWithIsCompatible,
          DeclareOpInterfaceMethods<KernelOpInterface,
                                    ["getSchedule", "decompose"]>])> {
  let arguments = (ins FloatTensor:$x, RngTensor:$rng, F64Attr:$ratio,
                       I64Attr:$stream, Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$y);
  let hasVerifier = 1;
  let extraClassDefinition = classDefinition # [{
    Schedule $cppClass::getSchedule() { return Schedule::Elementwise; }
    LogicalResult $cppClass::inferReturnTypes(
        MLIRContext *, std::optional<Location>, Adaptor adaptor,
        SmallVectorImpl<Type> &types) {
      types.push_back(adaptor.getX().getType());
      return success();
    }
    bool $cppClass::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
      return haveSameShapes(l, r);
    }
    LogicalResult $cppClass::verify() {
      return verifyDropout(*this, getRatio(), getStream());
    }
    FailureOr<SmallVector<Value>> $cppClass::decompose(ImplicitLocOpBuilder &b) {
      return decomposeDropout(b, getX(), getRng(), getRatio(), getStream(),
                              getY().getType());
    }
  }];
}

def Binade_DropoutOp : Binade_DropoutLikeOp<"dropout", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<TrainingOpInterface>]> {
  let summary = "zeroes elements with probability `ratio`, scales the others";
  let description = [{
    An element is kept, times 1 / (1 - ratio), where its uniform number of stream
    `stream` is at least `ratio` (Srivastava et al., 2014). No mask is stored: the
    gradient draws it again.

    - (C1) `ratio` lies in [0, 1].
    - (C2) `stream` is a word of 32 bits.
  }];
}

def Binade_DropoutGradOp : Binade_DropoutLikeOp<"dropout_grad",
    [NotDifferentiable]> {
  let summary = "gradient of dropout: the same elements zeroed and scaled";
}

#endif // BINADE_IR_OPS_RANDOM_TD
