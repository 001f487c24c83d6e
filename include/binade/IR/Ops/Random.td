//===- Random.td - dropout and its generator ------------------------------===//

#ifndef BINADE_IR_OPS_RANDOM_TD
#define BINADE_IR_OPS_RANDOM_TD

include "binade/IR/Ops/Base.td"

def Binade_RandomUniformOp : Binade_Op<"random_uniform", [
    Pure, NotDifferentiable, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<ElementwiseOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule"]>]> {
  let summary = "random elements, uniform in [0, 1)";
  let description = [{
    The upper 24 bits of a word that Philox4x32-10 (Salmon et al., 2011) draws with the key
    (low and high word of `seed`), divided by 2^24: of word `index` mod `per_counter` of the
    four that the counter (low and high word of `index` / `per_counter`, `stream`, low word
    of `step`) gives. So an element depends on seed, step, stream and index alone. With
    `per_counter = 4`, no word is drawn in vain. Operands and result have one shape; an empty tensor gives an
    empty tensor. The op has no gradient.

    Constraints:

    - (C1) `stream` fits in an unsigned word of 32 bits.
    - (C2) `per_counter` is 1 or 4.

    Example:

    ```mlir
    %u = binade.random_uniform %index, %seed, %step {stream = 3}
       : (tensor<8xi64>, tensor<8xi64>, tensor<8xi64>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins IntegerTensor:$index, IntegerTensor:$seed, IntegerTensor:$step,
                       I64Attr:$stream, DefaultValuedAttr<I64Attr, "1">:$per_counter);
  let results = (outs StaticF32Tensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

class Binade_DropoutLikeOp<string mnemonic, list<Trait> traits = []>
    : Binade_PrecisionOp<mnemonic, "Clear", !listconcat(traits, [
          Pure, InfersTypes,
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
    An element is kept, multiplied by 1 / (1 - ratio), if its `random_uniform` for `rng` and
    `stream` is at least `ratio`; otherwise it becomes 0 (Srivastava et al., 2014). No mask
    is stored: `dropout_grad` draws it again. The product is f32 and rounded once. A NaN or
    an infinity that is kept stays; one that is dropped becomes 0. Operand and result have
    one shape; an empty tensor gives an empty tensor. In evaluation the op returns its
    operand (`TrainingOpInterface`).

    Constraints:

    - (C1) `ratio` is in [0, 1].
    - (C2) `stream` fits in an unsigned word of 32 bits.

    Example:

    ```mlir
    %y = binade.dropout %x, %rng {ratio = 0.1, stream = 3}
       : (tensor<8x64xf32>, tensor<2xi64>) -> tensor<8x64xf32>
    ```
  }];
}

def Binade_DropoutGradOp : Binade_DropoutLikeOp<"dropout_grad",
    [NotDifferentiable]> {
  let summary = "gradient of dropout: the same elements zeroed and scaled";
  let description = [{
    `x` is the cotangent of the result of `dropout`. With the same `rng`, `ratio` and
    `stream` the same elements are kept. Rounding, special values and constraints are those
    of `dropout`.

    Example:

    ```mlir
    %dx = binade.dropout_grad %dy, %rng {ratio = 0.1, stream = 3}
       : (tensor<8x64xf32>, tensor<2xi64>) -> tensor<8x64xf32>
    ```
  }];
}

#endif // BINADE_IR_OPS_RANDOM_TD
