//===- Quantization.td - quantization with shared scales ------------------===//

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
  let summary = "quantizes a tensor with shared scales";
  let description = [{
    Computes the scales and the quantized elements of `x` as `#binade.quantized` defines
    them. With `saturate` an element whose quotient exceeds the largest value of the format
    becomes that value, which happens where a scale was rounded down. Without it the element
    becomes infinity or NaN, as in `cast`. Random numbers of stochastic rounding are those
    of `random_uniform` for `rng`, `stream` and the row-major index of the element, or, with
    rule `rounded_eden`, of the scale. With
    `amax` the scale follows from that operand instead of the largest magnitude of `x`
    (delayed scaling). Empty tensors give empty parts; the scale of an empty tensor is that
    of zeros.

    Constraints:

    - (C1) The results are the parts of `format` for this shape: the quantized tensor, the
      scales and, with `expand`, k and c, or, with `tensor_scale`, the scale of the tensor.
    - (C2) `rng` and `stream`, an unsigned word of 32 bits, are given if the format is
      `stochastic` or has rule `rounded_eden`, otherwise not.
    - (C3) `amax` is given only if the format has a history.

    Example:

    ```mlir
    %q, %scales = binade.quantize %x
       {format = #binade.quantized<f8E4M3FN, per_group<16>, scale = bf16>, saturate}
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
  let summary = "dequantizes a tensor";
  let description = [{
    Multiplies each quantized element by its scale (and inverts the expansion of a format
    with `expand`, or multiplies by the scale of the tensor) in f32, and rounds once to the
    format of the result. The op is the inverse of `quantize` up to rounding. A NaN as
    element or as scale gives NaN. The op has no gradient.

    Constraints:

    - (C1) The operands are the parts of `format` for the shape of the result.

    Example:

    ```mlir
    %x = binade.dequantize %q, %scale
       {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>}
       : (tensor<8x64xf8E4M3FN>, tensor<f32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins Variadic<Tensor>:$parts, Binade_QuantizedAttr:$format);
  let results = (outs NarrowFloatTensor:$y);
}

def Binade_GroupMaxOp : Binade_QuantizationOp<"group_max",
                                              ["getSchedule", "getReduced"]> {
  let summary = "maximum of each group of consecutive elements";
  let description = [{
    Groups of `size` elements are along `axis`, -1 for rows and -2 for columns. A group with
    a NaN gives NaN; the result is exact. The kernel that computes `x` can compute the
    maxima on the way. The op has no gradient: `quantize` decomposes into it.

    Constraints:

    - (C1) `x` has this axis, and `size` divides its length.
    - (C2) The result has the element type of `x` and one element per group, in order, in
      any shape.

    Example:

    ```mlir
    %y = binade.group_max %x {size = 16} : (tensor<8x64xf32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$x, I64Attr:$size,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntMinValue<-2>,
                                                                IntMaxValue<-1>]>,
                                         "-1">:$axis);
  let results = (outs FloatTensor:$y);
}

def Binade_ChooseScaleOp : Binade_QuantizationOp<"choose_scale", ["getSchedule"]> {
  let summary = "scales from the largest magnitudes";
  let description = [{
    `amax` holds the largest magnitude of each group of elements that share a scale, `least`
    the smallest one that is not 0. The results are the scales in the format's type; the f32
    factors by which `encode` divides or multiplies the elements, as the format's `rule`
    says; and with `expand`, k and c. What the rule makes of 0, infinity and NaN is part of
    `#binade.quantized`. The op has no gradient: `quantize` decomposes into it.

    Constraints:

    - (C1) `least` is given if the format has `expand`, otherwise not.
    - (C2) All results have the shape of `amax`. Scales have the format's type, the others
      are f32.
    - (C3) The format has no `tensor_scale`, and its scales are not f8E4M3FN: `quantize`
      decomposes these into arithmetic.

    Example:

    ```mlir
    %scale, %factor = binade.choose_scale %amax
       {format = #binade.quantized<f8E4M3FN, per_row, scale = bf16>}
       : (tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins StaticF32Tensor:$amax, Optional<StaticF32Tensor>:$least,
                       Binade_QuantizedAttr:$format);
  let results = (outs FloatTensor:$scale, StaticF32Tensor:$factor,
                      Variadic<StaticF32Tensor>:$expansion);
  let builders = [OpBuilder<(ins "::mlir::Value":$amax, "::mlir::Value":$least,
      "::mlir::binade::QuantizedAttr":$format)>];
}

def Binade_EncodeOp : Binade_QuantizationOp<"encode", ["getSchedule"]> {
  let summary = "quantizes elements by known scales";
  let description = [{
    The elementwise part of `quantize`, after `choose_scale`: divides or multiplies each
    element by its factor and rounds it to the element format. Values of 4 bits, two of
    which are stored in a byte later, have a byte each. `saturate`, NaN and infinities are
    as in `quantize`. The op has no gradient.

    Constraints:

    - (C1) `rest` has k and c if the format has `expand`, then a tensor of random numbers
      if it is `stochastic`.
    - (C2) `factor`, k and c have the shape of the scales of `x`; the result and the random
      numbers have the shape of `x`.

    Example:

    ```mlir
    %q = binade.encode %x, %factor
       {format = #binade.quantized<f8E4M3FN, per_row, scale = f32>, saturate}
       : (tensor<8x64xf32>, tensor<8xf32>) -> tensor<8x64xf8E4M3FN>
    ```
  }];
  let arguments = (ins StaticF32Tensor:$x, StaticF32Tensor:$factor,
                       Variadic<StaticF32Tensor>:$rest,
                       Binade_QuantizedAttr:$format, UnitAttr:$saturate);
  let results = (outs Tensor:$codes);
}

#endif // BINADE_IR_OPS_QUANTIZATION_TD
