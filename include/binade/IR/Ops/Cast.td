//===- Cast.td - changes of format, and values kept for backward ----------===//

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
  let summary = "elementwise change of format";
  let description = [{
    Rounds to nearest, ties to even, once. With `saturate` a value beyond the
    largest finite one becomes that; without, it becomes infinity, or NaN in
    formats without infinity. i1 and integers convert by value, modulo the width of
    the result; floats convert to integers by truncation.

    - (C1) `saturate` needs a float result.

    Example:

    ```mlir
    %h = binade.cast %x : (tensor<8x64xf32>) -> tensor<8x64xbf16>
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
  let summary = "elements with the same bits in another type";
  let description = [{
    The interpreter makes a NaN that signals a quiet one.

    - (C1) elements of both types have equally many bits.

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
  let summary = "f32 numbers rounded to those of a format that memory has not";
  let description = [{
    Rounds to nearest, ties to even; the rounded numbers are kept as f32. So the
    operands of a contraction in tf32 are exactly what a tensor core multiplies,
    whatever the core does with the bits that tf32 lacks.

    - (C1) `format` has the exponents of f32 and fewer bits of mantissa.

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
    Pure, SameOperandsAndResultShape, InferTypeOpAdaptorWithIsCompatible,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>,
    DeclareOpInterfaceMethods<LayoutOpInterface>,
    NotDifferentiable]> {
  let summary = "a forward value that the backward part reads";
  let description = [{
    Everything that crosses from forward to backward, other than arguments and
    constants, passes through one `save`: what is here is what a training step
    has to remember. A decision may name another storage format by `result`: then
    the value is rounded as by `cast`, and what is kept has that format.
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
