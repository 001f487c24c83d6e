//===- AlgebraOpInterface.td - algebraic properties of ops ----------------===//

#ifndef BINADE_INTERFACES_ALGEBRAOPINTERFACE_TD
#define BINADE_INTERFACES_ALGEBRAOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def AlgebraOpInterface : OpInterface<"AlgebraOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    Algebraic properties that follow from the formula of an op: in which operands
    its results are linear, and what is known of an element of a result from one
    element of an operand. Passes that follow a factor or a constant through a graph
    ask for them. An op that does not override a method lacks the property.
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
        Returns the factor, 1 or -1, by which operand `index` enters the result as a
        term or as an element; nothing if it does not.
      }],
      "::std::optional<double>", "getSign", (ins "unsigned":$index),
      /*methodBody=*/"", /*defaultImplementation=*/"return ::std::nullopt;">,
    InterfaceMethod<[{
        Returns whether the operands are terms of a sum, alternatives, or parts of
        the result. A constant operand of such an op is no factor.
      }],
      "bool", "hasTerms", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Returns the map from an element of operand `index` to the element of the
        result that is computed from it alone; null if there is no such element. If
        only some elements are (those of a maximum), the map holds for these.
      }],
      "::std::function<double(double)>", "getElementMap",
      (ins "unsigned":$index), /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::mlir::binade::multiplyBy($_op.getSign(index));
      }]>,
    InterfaceMethod<[{
        Returns whether each operand is a lower or upper bound of the elements of the
        other one, as in a maximum.
      }],
      "bool", "isBound", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Returns whether the result is a magnitude, a square, or a sum or power of
        such values, and therefore not negative. `isMagnitudeValue` says which
        operands are.
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
