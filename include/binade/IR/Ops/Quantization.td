//===- Quantization.td - codes with shared scales -------------------------===//

#ifndef BINADE_IR_OPS_QUANTIZATION_TD
#define BINADE_IR_OPS_QUANTIZATION_TD

include "binade/IR/Ops/Base.td"

class Binade_QuantizationOp<string mnemonic, list<string> kernelMethods,
                            list<Trait> traits = []>
    : Binade_Op<mnemonic, !listconcat(traits, [
          Pure, NotDifferentiable,
          DeclareOpInterfaceMethods<KernelOpInterface, kernelMethods>])> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Binade_QuantizeOp : Binade_QuantizationOp<"quantize",
                                              ["getSchedule", "decompose",
                                               "buildWithoutElements"],
                                              [AttrSizedOperandSegments]> {
  let summary = "codes and scales of a tensor";
  let description = [{
    `#binade.quantized` says what becomes of an element. With `saturate` what exceeds
    the largest number of the format becomes that, as it can where a scale was rounded
    down; without, it becomes infinity or NaN, as in `cast`. Random numbers are those of
    `random_uniform` for `rng` and `stream`, an element's for its index in row-major order.
    Where `amax` is given, the scale follows from that and not from the largest magnitude
    of `x`.

    - (C1) The results are what `format` keeps of a tensor of this shape: codes,
      scales, and with `expand` k and c.
    - (C2) There are `rng` and `stream`, a word of 32 bits, if the format is
      `stochastic`.
    - (C3) There is `amax` if the format has a history and the step keeps it, otherwise
      not.

    Example:

    ```mlir
    %codes, %scales = binade.quantize %x {
      format = #binade.quantized<f8E4M3FN, per_group<16>, scale = bf16>, saturate}
      : (tensor<8x64xf32>) -> (tensor<8x64xf8E4M3FN>, tensor<32xbf16>)
    ```
  }];
  let arguments = (ins FloatTensor:$x, Optional<F32Scalar>:$amax,
                       Optional<RngTensor>:$rng, Binade_QuantizedAttr:$format, UnitAttr:$saturate,
                       OptionalAttr<I64Attr>:$stream);
  let results = (outs Variadic<Tensor>:$parts);
  let assemblyFormat = [{
    $x (`by` $amax^)? (`rng` `(` $rng^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$x,
      "::mlir::binade::QuantizedAttr":$format, "bool":$saturate,
      CArg<"::mlir::Value", "{}">:$rng, CArg<"uint32_t", "0">:$stream)>];
}

def Binade_DequantizeOp : Binade_QuantizationOp<"dequantize",
                                                ["getSchedule", "isRecomputed"]> {
  let summary = "the elements that codes and scales stand for";
  let description = [{
    Computed in f32 and rounded to the result's format once.

    - (C1) The operands are what `format` keeps of a tensor of the result's shape.

    Example:

    ```mlir
    %x = binade.dequantize %codes, %scales {
      format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>}
      : (tensor<8x64xf8E4M3FN>, tensor<f32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins Variadic<Tensor>:$parts, Binade_QuantizedAttr:$format);
  let results = (outs FloatTensor:$y);
}

def Binade_GroupMaxOp : Binade_QuantizationOp<"group_max",
                                              ["getSchedule", "getReduced"]> {
  let summary = "maximum of each group of neighbours; NaN if any is";
  let description = [{
    Groups lie along `axis`, -1 for rows and -2 for columns, so that the kernel that
    makes `x` can find theirs on its way.

    - (C1) `size` divides the axis, which `x` has.
    - (C2) The result has an element for each group, in order, whatever its shape.
  }];
  let arguments = (ins FloatTensor:$x, I64Attr:$size,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntMinValue<-2>,
                                                                IntMaxValue<-1>]>,
                                         "-1">:$axis);
  let results = (outs FloatTensor:$y);
}

def Binade_ChooseScaleOp : Binade_QuantizationOp<"choose_scale", ["getSchedule"]> {
  let summary = "scales from the magnitudes that share them";
  let description = [{
    `amax` holds the largest magnitude that shares each scale, `least` the least that
    is not 0. The results are the scales, what `encode` divides elements by or
    multiplies them with, and with `expand` k and c.

    - (C1) There is `least` if the format has `expand`.
    - (C2) Scales have the format's type, the other results f32, all the shape of
      `amax`.
  }];
  let arguments = (ins StaticF32Tensor:$amax, Optional<StaticF32Tensor>:$least,
                       Binade_QuantizedAttr:$format);
  let results = (outs FloatTensor:$scale, StaticF32Tensor:$factor,
                      Variadic<StaticF32Tensor>:$expansion);
  let builders = [OpBuilder<(ins "::mlir::Value":$amax, "::mlir::Value":$least,
      "::mlir::binade::QuantizedAttr":$format)>];
}

def Binade_EncodeOp : Binade_QuantizationOp<"encode", ["getSchedule"]> {
  let summary = "codes of elements whose scales are known";
  let description = [{
    The part of `quantize` that is left when `choose_scale` is done. Two codes that
    will share a byte have one each.

    - (C1) There are k and c if the format has `expand`, then random numbers if it is
      `stochastic`.
    - (C2) Factor, k and c have the shape of the scales of `x`, codes and random numbers
      that of `x`.
  }];
  let arguments = (ins StaticF32Tensor:$x, StaticF32Tensor:$factor,
                       Variadic<StaticF32Tensor>:$rest,
                       Binade_QuantizedAttr:$format, UnitAttr:$saturate);
  let results = (outs Tensor:$codes);
}

#endif // BINADE_IR_OPS_QUANTIZATION_TD
