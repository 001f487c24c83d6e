//===- ElementwiseBase.td - classes of elementwise ops --------------------===//

#ifndef BINADE_IR_OPS_ELEMENTWISEBASE_TD
#define BINADE_IR_OPS_ELEMENTWISEBASE_TD

include "binade/IR/Ops/Base.td"

// An elementwise op is one record. `unpack`, one declaration, names the
// operands. `scalar` computes one element from theirs (f32, i64 or i1, or
// vectors of them; the tensors' types say whether integers are unsigned).
// `adjoint` computes the gradients of the operands from the cotangent `dy`, the
// operands and the result `y`; without it, the op has no gradient. Shapes,
// precision, lowering and fusion follow from here. The description is
// `semantics`, what the op computes, then `formats` and `example`.
class Binade_ElementwiseOp<string mnemonic, string precisionClass,
                           dag operands, string unpack, list<Trait> traits = []>
    : Binade_PrecisionOp<mnemonic, precisionClass, !listconcat(traits, [
          Pure, SameOperandsAndResultShape, InfersTypes,
          DeclareOpInterfaceMethods<DifferentiableOpInterface>,
          DeclareOpInterfaceMethods<ElementwiseOpInterface>,
          DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule"]>,
          DeclareOpInterfaceMethods<LayoutOpInterface>])> {
  code semantics = ?;
  code formats = [{
    Operands and result have one shape; their formats may differ, except that f64 occurs only
    alone. Narrow floats are widened to f32, in which the op computes (f64 stays f64), and
    the result is rounded once to its format, to nearest, ties to even. Empty tensors give an
    empty tensor.
  }];
  code example = ?;
  let description = semantics # formats # example;
  code scalar = ?;
  code adjoint = [{ return SmallVector<Value>(operands.size()); }];
  code resultType = [{ return operands.front().getType(); }];
  let arguments = !con(operands, (ins Binade_PrecisionArg:$precision));
  let results = (outs Tensor:$y);
  let extraClassDefinition = classDefinition # [{
    Schedule $cppClass::getSchedule() { return Schedule::Elementwise; }
    LogicalResult $cppClass::inferReturnTypes(
        MLIRContext *, std::optional<Location>, Adaptor adaptor,
        SmallVectorImpl<Type> &types) {
      auto infer = [](ValueRange operands) -> Type {
        }] # resultType # [{
      };
      types.push_back(infer(adaptor.getOperands()));
      return success();
    }
    bool $cppClass::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
      return haveSameShapes(l, r);
    }
    Value $cppClass::buildScalar(ImplicitLocOpBuilder &b, ValueRange operands) {
      [[maybe_unused]] }] # unpack # scalar # [{
    }
    SmallVector<Value> $cppClass::buildAdjoint(ImplicitLocOpBuilder &b,
                                               ArrayRef<Value> cotangents) {
      ValueRange operands = getOperation()->getOperands();
      [[maybe_unused]] Value dy = cotangents.front(), y = getY();
      [[maybe_unused]] }] # unpack # adjoint # [{
    }
  }];
}

class Binade_UnaryOp<string mnemonic, string precisionClass,
                     dag attributes = (ins), list<Trait> traits = [],
                     Type operand = FloatTensor>
    : Binade_ElementwiseOp<mnemonic, precisionClass,
          !con((ins operand:$x), attributes),
          "Value x = operands[0];", traits> {
  let example = [{
    Example:

    ```mlir
    %y = binade.}] # mnemonic # [{ %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
}

class Binade_BinaryOp<string mnemonic, string precisionClass,
                      dag attributes = (ins), list<Trait> traits = [],
                      Type operand = NumberTensor>
    : Binade_ElementwiseOp<mnemonic, precisionClass,
          !con((ins operand:$lhs, operand:$rhs), attributes),
          "Value lhs = operands[0], rhs = operands[1];",
          !listconcat(traits, [OneKindOfElements])> {
  let formats = [{
    Operands and result have one shape. Either all are floating-point, in formats that may
    differ, as bf16 and f32; f64 occurs only alone. Narrow floats are widened to f32, in
    which the op computes (f64 stays f64), and the result is rounded once to its format, to
    nearest, ties to even. Or all have one integer type. Empty tensors give an empty tensor.
  }];
  let example = [{
    Example:

    ```mlir
    %y = binade.}] # mnemonic # [{ %lhs, %rhs
       : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
}

// Of bits: operands and result have one type.
class Binade_BitwiseOp<string mnemonic>
    : Binade_BinaryOp<mnemonic, "Clear", (ins), [Commutative], BitsTensor> {
  let formats = [{
    Operands and result have one shape and one integer type, i1 included. Empty tensors give
    an empty tensor. The op has no gradient.
  }];
  let example = [{
    Example:

    ```mlir
    %y = binade.}] # mnemonic # [{ %lhs, %rhs
       : (tensor<8x64xi1>, tensor<8x64xi1>) -> tensor<8x64xi1>
    ```
  }];
}

class Binade_UnaryGradOp<string mnemonic, string precisionClass,
                         dag attributes = (ins)>
    : Binade_ElementwiseOp<mnemonic, precisionClass,
          !con((ins FloatTensor:$gradient, FloatTensor:$saved), attributes),
          "Value gradient = operands[0], saved = operands[1];",
          [NotDifferentiable]> {
  let extraClassDeclaration =
      "Linearity getLinearity() { return Linearity::First; }";
  let example = [{
    Example:

    ```mlir
    %dx = binade.}] # mnemonic # [{ %dy, %saved
       : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
}

#endif // BINADE_IR_OPS_ELEMENTWISEBASE_TD
