//===- PrecisionOpInterface.td - what a precision pass may ask ------------===//

#ifndef BINADE_INTERFACES_PRECISIONOPINTERFACE_TD
#define BINADE_INTERFACES_PRECISIONOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    An op that can compute in more than one floating-point format. Every
    precision pass talks to ops through this interface and names no op.

    A decision is the op's `precision` attribute. It changes no type: the types
    follow when `binade-materialize-precision` runs.
  }];
  let methods = [
    InterfaceMethod<"The default precision class, before a policy deviates.",
      "::mlir::binade::PrecisionClass", "getPrecisionClass">,
    InterfaceMethod<"The decision, or null where none was made.",
      "::mlir::binade::PrecisionAttr", "getPrecisionAttr">,
    InterfaceMethod<"Writes the decision.",
      "void", "setPrecisionAttr", (ins "::mlir::binade::PrecisionAttr":$precision)>,
    InterfaceMethod<[{
        What operand `index` is read in: the compute format, always f32 (norm
        parameters, statistics), or as it comes (integers, masks, scalars in
        f64).
      }],
      "::mlir::binade::FormatRole", "getOperandFormat", (ins "unsigned":$index),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::mlir::binade::getDefaultFormatRole(
            $_op->getOperand(index).getType());
      }]>,
    InterfaceMethod<[{
        What result `index` is written in: the result format, always f32, or
        as its type says.
      }],
      "::mlir::binade::FormatRole", "getResultFormat", (ins "unsigned":$index),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::mlir::binade::getDefaultFormatRole(
            $_op->getResult(index).getType());
      }]>,
    InterfaceMethod<[{
        What operand `index` is to the model, where the op knows: the table of
        an embedding, parameters of a norm, logits. Nothing where it depends on
        where the operand comes from.
      }],
      "::std::optional<::mlir::binade::TensorRole>", "getOperandRole",
      (ins "unsigned":$index), /*methodBody=*/"",
      /*defaultImplementation=*/"return ::std::nullopt;">,
    InterfaceMethod<[{
        Whether operand `index` multiplies others element by element: a vector of
        parameters there starts from 1.
      }],
      "bool", "isFactor", (ins "unsigned":$index), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        The axis of operand `index` over which products are summed, as a negative
        number from the last axis, -1, on; nothing where there is not one alone.
      }],
      "::std::optional<int64_t>", "getSummedAxis", (ins "unsigned":$index),
      /*methodBody=*/"", /*defaultImplementation=*/"return ::std::nullopt;">,
    InterfaceMethod<[{
        How many products the op sums in all; nothing for ops that sum none.
      }],
      "::std::optional<int64_t>", "countProducts", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return ::std::nullopt;">,
    InterfaceMethod<"Whether operand `index` must not be 0: a divisor, or what a "
                    "logarithm is taken of.",
      "bool", "isSingularAtZero", (ins "unsigned":$index), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Whether a large negative element of an operand has no part in the
        result, as in softmax and in a maximum.
      }],
      "bool", "ignoresMasked", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        How the target of the op's module computes the op, where that differs
        from its decision. Valid until the op is decomposed.
      }],
      "::std::optional<::mlir::binade::Fallback>", "findFallback", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::mlir::binade::findDequantized($_op, $_op.getPrecisionAttr());
      }]>,
  ];
  let extraClassDeclaration = [{
    /// Whether the op sums products, so that its decision names an accumulation
    /// format.
    bool accumulates() { return countProducts().has_value(); }
  }];
}

#endif // BINADE_INTERFACES_PRECISIONOPINTERFACE_TD
