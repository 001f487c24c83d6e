//===- AlgebraOpInterface.td - algebraic properties of ops ----------------===//

#ifndef BINADE_INTERFACES_ALGEBRAOPINTERFACE_TD
#define BINADE_INTERFACES_ALGEBRAOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def AlgebraOpInterface : OpInterface<"AlgebraOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    Algebraic properties that follow from the formula of an op: in which operands
    its results are linear, and how an element of a result depends on one element of
    an operand. Passes use them to follow a factor or a constant through a graph. An
    op that does not override a method lacks the property.
  }];
  let methods = [
    InterfaceMethod<[{
        Returns in which floating-point operands the results are linear.
        `binade-split-training-step` uses it to find where the loss scale enters the
        imported backward pass.
      }],
      "::mlir::binade::Linearity", "getLinearity", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return ::mlir::binade::Linearity::None;">,
    InterfaceMethod<[{
        Returns the factor, 1 or -1, of operand `index` if it is a term of the result,
        as in `sub`, or if its elements are elements of the result, as in `select`;
        otherwise nothing. Used to follow the constants of masks.
      }],
      "::std::optional<double>", "getSign", (ins "unsigned":$index),
      /*methodBody=*/"", /*defaultImplementation=*/"return ::std::nullopt;">,
    InterfaceMethod<[{
        Returns whether the operands are terms of a sum (`add`), alternatives
        (`select`) or parts of the result (`concat`). A constant operand of such an op
        is then not a factor, and the loss scale may multiply it.
      }],
      "bool", "hasTerms", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Returns the function that computes an element of the result from an element of
        operand `index` alone, such as the square root; null if there is none. It need
        not hold for all elements: that of `add` is the identity, where the other term
        is 0, and that of `max`, where this operand is the larger one. Used to find
        constants that elements of a value are computed from.
      }],
      "::std::function<double(double)>", "getElementMap",
      (ins "unsigned":$index), /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::mlir::binade::multiplyBy($_op.getSign(index));
      }]>,
    InterfaceMethod<[{
        Returns whether each operand bounds the elements of the other one, as in `max`
        and `min`. A constant bound of huge magnitude has no effect.
      }],
      "bool", "isBound", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Returns whether the result is a magnitude, a square, or a sum or power of
        such values, and therefore not negative. `isMagnitudeValue` tells
        whether an operand is such a value.
      }],
      "bool", "isMagnitude",
      (ins "::llvm::function_ref<bool(::mlir::Value)>":$isMagnitudeValue),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        (void)isMagnitudeValue;
        return false;
      }]>,
  ];
}

#endif // BINADE_INTERFACES_ALGEBRAOPINTERFACE_TD
