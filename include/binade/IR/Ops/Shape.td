//===- Shape.td - constants and data movement -----------------------------===//

#ifndef BINADE_IR_OPS_SHAPE_TD
#define BINADE_IR_OPS_SHAPE_TD

include "binade/IR/Ops/Base.td"

def Binade_ConstantOp : Binade_Op<"constant", [
    Pure, ConstantLike, NotDifferentiable, AllTypesMatch<["value", "y"]>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "isRecomputed"]>]> {
  let summary = "tensor that is known at compile time";
  let description = [{
    The value is a `dense` attribute or, for data in a file, `#binade.external`. The result
    has its type. The op has no gradient.

    Example:

    ```mlir
    %half = binade.constant dense<0.5> : tensor<8x64xf32>
    ```
  }];
  let arguments = (ins TypedAttrInterface:$value);
  let results = (outs Tensor:$y);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "::mlir::TypedAttr":$value), [{
    build($_builder, $_state, value.getType(), value);
  }]>];
}

// Moves elements without arithmetic: operands and result have one element type.
class Binade_MovementOp<string mnemonic, list<string> kernelMethods = [],
                        list<Trait> traits = []>
    : Binade_PrecisionOp<mnemonic, "Clear", !listconcat(traits, [
          Pure,
          DeclareOpInterfaceMethods<DifferentiableOpInterface>,
          DeclareOpInterfaceMethods<KernelOpInterface,
              !listconcat(["getSchedule", "getRows"], kernelMethods)>])> {
  let extraClassDeclaration = [{
    Linearity getLinearity() { return Linearity::Joint; }
    bool isMagnitude(::llvm::function_ref<bool(::mlir::Value)> holds) {
      return holds((*this)->getOperand(0));
    }
  }];
  let results = (outs Tensor:$y);
  let hasVerifier = 1;
}

def Binade_ReshapeOp : Binade_MovementOp<"reshape"> {
  let summary = "the same elements in row-major order, in another shape";
  let description = [{
    Elements are copied bit for bit, so that NaNs keep their payload. Operand and result
    have equally many elements and one element type. An empty tensor gives an empty tensor.
    The gradient is the inverse reshape.

    Example:

    ```mlir
    %y = binade.reshape %x : (tensor<8x64xf32>) -> tensor<8x4x16xf32>
    ```
  }];
  let arguments = (ins Tensor:$x, Binade_PrecisionArg:$precision);
  let hasFolder = 1;
}

def Binade_TransposeOp : Binade_MovementOp<"transpose", ["getRunLength"]> {
  let summary = "permutation of axes";
  let description = [{
    Axis i of the result is axis `permutation[i]` of the operand. Elements are copied bit
    for bit, so that NaNs keep their payload. Operand and result have one element type. An
    empty tensor gives an empty tensor. The gradient is the inverse transpose.

    Example:

    ```mlir
    %y = binade.transpose %x {permutation = array<i64: 1, 0>}
       : (tensor<8x64xf32>) -> tensor<64x8xf32>
    ```
  }];
  let arguments = (ins Tensor:$x, DenseI64ArrayAttr:$permutation,
                       Binade_PrecisionArg:$precision);
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$x,
                                 "::llvm::ArrayRef<int64_t>":$permutation)>];
}

def Binade_BroadcastOp : Binade_MovementOp<"broadcast", ["isRecomputed"], [
    DeclareOpInterfaceMethods<LayoutOpInterface,
                              ["chooseLayouts", "applyLayouts"]>]> {
  let summary = "copies along new axes and axes of length 1";
  let description = [{
    Axis i of the operand is axis `axes[i]` of the result, and has its length or length 1.
    Elements are copied bit for bit, so that NaNs keep their payload. Operand and result
    have one element type. A result without elements is empty. The gradient is the sum over
    the copies.

    Constraints: `axes` has one entry per axis of the operand, in ascending order.

    Example:

    ```mlir
    %y = binade.broadcast %bias {axes = array<i64: 1>} : (tensor<64xf32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins Tensor:$x, DenseI64ArrayAttr:$axes,
                       Binade_PrecisionArg:$precision);
  let builders = [OpBuilder<(ins "::mlir::Type":$y, "::mlir::Value":$x,
                                 "::llvm::ArrayRef<int64_t>":$axes), [{
    build($_builder, $_state, y, x, axes, PrecisionAttr());
  }]>];
  let hasFolder = 1;
}

def Binade_SliceOp : Binade_MovementOp<"slice", ["getRunLength"], [
    DeclareOpInterfaceMethods<LayoutOpInterface, ["applyLayouts"]>]> {
  let summary = "strided box of a tensor";
  let description = [{
    Per axis, element i of the result is element `offset + i stride` of the operand. The
    shape of the result is the size of the box. Elements are copied bit for bit, so that
    NaNs keep their payload. Operand and result have one element type. The gradient is
    `pad`.

    Constraints: `offsets` and `strides` have one entry per axis. Strides are positive, and
    the box lies inside the operand.

    Example:

    ```mlir
    %y = binade.slice %x {offsets = array<i64: 0, 32>, strides = array<i64: 1, 2>}
       : (tensor<8x64xf32>) -> tensor<8x16xf32>
    ```
  }];
  let arguments = (ins Tensor:$x, DenseI64ArrayAttr:$offsets,
                       DenseI64ArrayAttr:$strides,
                       Binade_PrecisionArg:$precision);
  let builders = [OpBuilder<(ins "::mlir::Type":$y, "::mlir::Value":$x,
                                 "::llvm::ArrayRef<int64_t>":$offsets,
                                 "::llvm::ArrayRef<int64_t>":$strides), [{
    build($_builder, $_state, y, x, offsets, strides, PrecisionAttr());
  }]>];
  let hasFolder = 1;
}

def Binade_PadOp : Binade_MovementOp<"pad", [], [
    DeclareOpInterfaceMethods<LayoutOpInterface, ["applyLayouts"]>]> {
  let extraClassDeclaration = [{
    Linearity getLinearity() { return Linearity::Joint; }
    ::std::function<double(double)> getElementMap(unsigned) { return multiplyBy(1.0); }
    bool isMagnitude(::llvm::function_ref<bool(::mlir::Value)> holds) {
      return holds(getX());
    }
  }];
  let summary = "a tensor as a strided box in zeros";
  let description = [{
    Per axis, element `offset + i stride` of the result is element i of the operand; all
    others are 0. The op is the adjoint of `slice`, and `slice` is its gradient. Elements
    are copied bit for bit, so that NaNs keep their payload. Operand and result have one
    element type.

    Constraints: `offsets` and `strides` have one entry per axis. Strides are positive, and
    the box lies inside the result.

    Example:

    ```mlir
    %y = binade.pad %x {offsets = array<i64: 0, 32>, strides = array<i64: 1, 2>}
       : (tensor<8x16xf32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins Tensor:$x, DenseI64ArrayAttr:$offsets,
                       DenseI64ArrayAttr:$strides,
                       Binade_PrecisionArg:$precision);
  let builders = [OpBuilder<(ins "::mlir::Type":$y, "::mlir::Value":$x,
                                 "::llvm::ArrayRef<int64_t>":$offsets,
                                 "::llvm::ArrayRef<int64_t>":$strides), [{
    build($_builder, $_state, y, x, offsets, strides, PrecisionAttr());
  }]>];
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Binade_ConcatOp : Binade_MovementOp<"concat", ["buildWithoutElements",
                                                   "getRunLength"], [
    DeclareOpInterfaceMethods<LayoutOpInterface, ["applyLayouts"]>]> {
  let extraClassDeclaration = [{
    Linearity getLinearity() { return Linearity::Joint; }
    bool hasTerms() { return true; }
    ::std::function<double(double)> getElementMap(unsigned) { return multiplyBy(1.0); }
    bool isMagnitude(::llvm::function_ref<bool(::mlir::Value)> holds);
  }];
  let summary = "concatenation along an axis";
  let description = [{
    Elements are copied bit for bit, so that NaNs keep their payload. Operands and result
    have one element type and one shape, except along `axis`, where the length of the result
    is the sum of those of the operands. Empty operands add nothing. The gradients are
    slices.

    Example:

    ```mlir
    %y = binade.concat %a, %b {axis = 1}
       : (tensor<8x16xf32>, tensor<8x48xf32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins Variadic<Tensor>:$inputs, I64Attr:$axis,
                       Binade_PrecisionArg:$precision);
  let builders = [OpBuilder<(ins "::mlir::Type":$y, "::mlir::ValueRange":$inputs,
                                 "int64_t":$axis), [{
    build($_builder, $_state, y, inputs,
          $_builder.getI64IntegerAttr(axis), PrecisionAttr());
  }]>];
  let hasCanonicalizeMethod = 1;
}

def Binade_IotaOp : Binade_Op<"iota", [
    Pure, NotDifferentiable,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "isRecomputed"]>]> {
  let summary = "indices along an axis, or row-major indices";
  let description = [{
    Each element of the result is its own index along `axis` or, without an axis, its
    position in row-major order. The op has no gradient.

    Constraints: `axis` is an axis of the result.

    Example:

    ```mlir
    %column = binade.iota {axis = 1} : tensor<8x64xi64>
    %position = binade.iota : tensor<8x64xi32>
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$axis);
  let results = (outs IntegerTensor:$y);
  let assemblyFormat = "attr-dict `:` type(results)";
  let hasVerifier = 1;
}

#endif // BINADE_IR_OPS_SHAPE_TD
