//===- Shape.td - constants and movement of elements ----------------------===//

#ifndef BINADE_IR_OPS_SHAPE_TD
#define BINADE_IR_OPS_SHAPE_TD

include "binade/IR/Ops/Base.td"

def Binade_ConstantOp : Binade_Op<"constant", [
    Pure, ConstantLike, NotDifferentiable, AllTypesMatch<["value", "y"]>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "isRecomputed"]>]> {
  let summary = "a tensor known when the graph is compiled";
  let description = [{
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

// Moves elements and does no arithmetic: one operand, one result, one format.
class Binade_MovementOp<string mnemonic, list<string> kernelMethods = [],
                        list<Trait> traits = []>
    : Binade_PrecisionOp<mnemonic, "Clear", !listconcat(traits, [
          Pure,
          DeclareOpInterfaceMethods<DifferentiableOpInterface>,
          DeclareOpInterfaceMethods<KernelOpInterface,
              !listconcat(["getSchedule", "getRows"], kernelMethods)>])> {
  let results = (outs Tensor:$y);
  let hasVerifier = 1;
}

def Binade_ReshapeOp : Binade_MovementOp<"reshape"> {
  let summary = "the same elements, in row-major order, under another shape";
  let arguments = (ins Tensor:$x, Binade_PrecisionArg:$precision);
  let hasFolder = 1;
}

def Binade_TransposeOp : Binade_MovementOp<"transpose"> {
  let summary = "axes in another order: axis i of the result is axis permutation[i]";
  let arguments = (ins Tensor:$x, DenseI64ArrayAttr:$permutation,
                       Binade_PrecisionArg:$precision);
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$x,
                                 "::llvm::ArrayRef<int64_t>":$permutation)>];
}

def Binade_BroadcastOp : Binade_MovementOp<"broadcast", ["isRecomputed"], [
    DeclareOpInterfaceMethods<LayoutOpInterface,
                              ["chooseLayouts", "applyLayouts"]>]> {
  let summary = "copies along new or unit axes";
  let description = [{
    Axis i of the operand is axis `axes[i]` of the result and has its length, or
    length 1.

    Example:

    ```mlir
    %y = binade.broadcast %bias {axes = array<i64: 1>}
       : (tensor<64xf32>) -> tensor<8x64xf32>
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

def Binade_SliceOp : Binade_MovementOp<"slice", [], [
    DeclareOpInterfaceMethods<LayoutOpInterface, ["applyLayouts"]>]> {
  let summary = "a strided box: element i is element offset + i stride, per axis";
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
  let summary = "the operand as a strided box in zeros: the adjoint of slice";
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

def Binade_ConcatOp : Binade_MovementOp<"concat", ["buildWithoutElements"], [
    DeclareOpInterfaceMethods<LayoutOpInterface, ["applyLayouts"]>]> {
  let summary = "operands one after the other along an axis";
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
  let summary = "each element's index along an axis, or its row-major index";
  let arguments = (ins OptionalAttr<I64Attr>:$axis);
  let results = (outs IntegerTensor:$y);
  let assemblyFormat = "attr-dict `:` type(results)";
  let hasVerifier = 1;
}

#endif // BINADE_IR_OPS_SHAPE_TD
