//===- Cast.td - casts, and values saved for backward ---------------------===//

#ifndef BINADE_IR_OPS_CAST_TD
#define BINADE_IR_OPS_CAST_TD

include "binade/IR/Ops/Base.td"

def Binade_CastOp : Binade_Op<"cast", [
    Pure, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<ElementwiseOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "isRecomputed", "keepsIntegers"]>,
    DeclareOpInterfaceMethods<LayoutOpInterface>]> {
  let extraClassDeclaration = [{
    Linearity getLinearity() { return Linearity::Joint; }
    ::std::optional<double> getSign(unsigned) { return 1.0; }
    bool isMagnitude(::llvm::function_ref<bool(::mlir::Value)> holds) {
      return holds(getX());
    }
  }];
  let summary = "elementwise conversion to another number format";
  let description = [{
    Converts every element to the element type of the result. Operand and result have one
    shape. An empty tensor gives an empty tensor.

    - Float to float: rounds once, to nearest, ties to even. With `saturate` a value beyond
      the largest finite value of the format becomes that value. Without it the value
      becomes infinity, or NaN in a format without infinity. A NaN stays a NaN.
    - Integer to float: rounds once. i1 counts as 0 and 1.
    - Float to integer: truncates toward 0. The result is undefined for NaN and for values
      out of range. To i1: false for 0, otherwise true.
    - Integer to integer: modulo the width of the result. To i1: false for 0, otherwise true.

    The gradient is the cotangent, cast to the format of the operand; conversions from or
    to integers have none.

    Constraints:

    - (C1) `saturate` needs a floating-point result.

    Example:

    ```mlir
    %h = binade.cast %x : (tensor<8x64xf32>) -> tensor<8x64xbf16>
    %q = binade.cast %h {saturate} : (tensor<8x64xbf16>) -> tensor<8x64xf8E4M3FN>
    ```
  }];
  let arguments = (ins Tensor:$x, UnitAttr:$saturate);
  let results = (outs Tensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def WordTensor : StaticShapeTensorOf<[F32, F64, I8, I16, I32, I64, UI8, UI16, UI32,
                                      UI64]>;

def Binade_BitcastOp : Binade_Op<"bitcast", [
    Pure, SameOperandsAndResultShape, NotDifferentiable,
    DeclareOpInterfaceMethods<ElementwiseOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule"]>,
    DeclareOpInterfaceMethods<LayoutOpInterface>]> {
  let summary = "elementwise reinterpretation of the bits as another type";
  let description = [{
    Operand and result have one shape. An empty tensor gives an empty tensor. Every bit is
    kept; only the reference interpreter turns a signaling NaN into a quiet one. The op has
    no gradient.

    Constraints:

    - (C1) The element types of operand and result have the same width.

    Example:

    ```mlir
    %u = binade.bitcast %x : (tensor<8xf32>) -> tensor<8xui32>
    ```
  }];
  let arguments = (ins WordTensor:$x);
  let results = (outs WordTensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Binade_RoundToOp : Binade_Op<"round_to", [
    Pure, SameOperandsAndResultType, NotDifferentiable,
    DeclareOpInterfaceMethods<ElementwiseOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule"]>,
    DeclareOpInterfaceMethods<LayoutOpInterface>]> {
  let summary = "elementwise rounding of f32 to a format that is not stored";
  let description = [{
    Rounds to nearest, ties to even, to a value of `format`, and stores it as f32. The
    operands of a contraction in TF32 are rounded so, because tensor cores differ in what
    they do with the bits of f32 that TF32 does not have. NaN and infinities stay; a value
    beyond the largest finite value becomes infinity. An empty tensor gives an empty tensor.
    The op has no gradient: it exists only after differentiation.

    Constraints:

    - (C1) `format` has the exponent range of f32 and fewer bits of mantissa.

    Example:

    ```mlir
    %t = binade.round_to %x {format = tf32} : tensor<8x64xf32>
    ```
  }];
  let arguments = (ins StaticF32Tensor:$x, TypeAttrOf<AnyFloat>:$format);
  let results = (outs StaticF32Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($y)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::FloatType":$format), [{
    build($_builder, $_state, x.getType(), x, ::mlir::TypeAttr::get(format));
  }]>];
  let extraClassDeclaration = [{
    FloatType getFloatFormat() { return cast<FloatType>(getFormat()); }
  }];
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Binade_SaveOp : Binade_PrecisionOp<"save", "Clear", [
    Pure, SameOperandsAndResultShape, InfersTypes,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>,
    DeclareOpInterfaceMethods<LayoutOpInterface>,
    NotDifferentiable]> {
  let extraClassDeclaration =
      "::std::optional<double> getSign(unsigned) { return 1.0; }";
  let summary = "marks a forward value that is saved for backward";
  let description = [{
    Every forward value that a backward op reads, other than arguments and constants,
    passes through one `save`. The operands of all `save` ops are the activations that a
    step holds in memory between its forward and its backward pass.

    The result equals the operand. If the decision `precision` has another `result` format,
    the value is rounded to it as by `cast`, and is stored in it until it is read. Operand
    and result have one shape. The op has no gradient.

    Example:

    ```mlir
    %s = binade.save %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %n = binade.save %x {precision = #binade.precision<compute = f32, result = bf16>}
       : (tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins Tensor:$x, Binade_PrecisionArg:$precision);
  let results = (outs Tensor:$y);
  let extraClassDefinition = classDefinition # [{
    LogicalResult $cppClass::inferReturnTypes(
        MLIRContext *, std::optional<Location>, Adaptor adaptor,
        SmallVectorImpl<Type> &types) {
      types.push_back(adaptor.getX().getType());
      return success();
    }
    bool $cppClass::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
      return haveSameShapes(l, r);
    }
  }];
}

#endif // BINADE_IR_OPS_CAST_TD
