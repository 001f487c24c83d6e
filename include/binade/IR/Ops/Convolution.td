//===- Convolution.td - convolutions and pooling --------------------------===//

#ifndef BINADE_IR_OPS_CONVOLUTION_TD
#define BINADE_IR_OPS_CONVOLUTION_TD

include "binade/IR/Ops/Base.td"

// Geometry shared by a convolution and its gradients. Axes of activations are
// N, C, spatial...; with `channels_last` N, spatial..., C. Weights are O, C/groups,
// spatial... in both.
defvar ConvolutionGeometry = (ins
    DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padding_low,
    DenseI64ArrayAttr:$padding_high, DenseI64ArrayAttr:$dilations,
    I64Attr:$groups, UnitAttr:$channels_last);

class Binade_ConvolutionOp<string mnemonic, list<Trait> traits = []>
    : Binade_PrecisionOp<mnemonic, "Allow", !listconcat(traits, [
          Pure,
          DeclareOpInterfaceMethods<PrecisionOpInterface,
                                    ["countMacs", "getOperandFormat",
                                     "findFallback"]>,
          DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule"]>,
          DeclareOpInterfaceMethods<LayoutOpInterface,
                                    ["chooseLayouts", "applyLayouts"]>])> {
  // The number of leading operands that are activations, and whether the result
  // is one.
  int activations = 1;
  bit givesActivation = 1;
  let results = (outs FloatTensor:$y);
  let hasVerifier = 1;
  let extraClassDeclaration =
      "Linearity getLinearity() { return Linearity::Product; }";
  let extraClassDefinition = classDefinition # [{
    std::optional<int64_t> $cppClass::countMacs() {
      return countConvolutionMacs(*this);
    }
    std::optional<Fallback> $cppClass::findFallback() {
      return findConvolutionFallback(*this);
    }
    FormatRole $cppClass::getOperandFormat(unsigned index) {
      return index < 2 ? FormatRole::Chosen : FormatRole::Wide; // bias
    }
    Schedule $cppClass::getSchedule() { return Schedule::Library; }
    // Libraries are fast with the channels last.
    Layouts $cppClass::chooseLayouts(const Layouts &) {
      return chooseChannelsLast(*this, getChannelsLast(), }]
          # activations # ", " # givesActivation # [{);
    }
    void $cppClass::applyLayouts(const Layouts &chosen) {
      setChannelsLast(getChannelsLast() || !chosen.operands.front().empty());
    }
  }];
}

def Binade_ConvOp : Binade_ConvolutionOp<"conv", [
    DeclareOpInterfaceMethods<KernelOpInterface, ["buildWithoutElements"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "convolution (cross-correlation) over one to three axes";
  let description = [{
    As ONNX `Conv`: `y[n, o, p] = bias[o] + sum over c and k of x[n, c, p stride +
    k dilation - padding_low] weight[o, c, k]`, where x is 0 in the padding. With
    `channels_last` the axes of `x` and of the result are N, spatial..., C instead of N, C,
    spatial...; those of the weight are the same in both cases.

    Elements are multiplied in the format of the operands, and added in f32. Then the bias is
    added, and the result is rounded once. NaN and infinities propagate as in the formula.
    Without input channels, the result is the bias, or 0.

    Constraints:

    - (C1) `x` and `weight` have one rank of 3, 4 or 5, and each geometry list has one
      entry per spatial axis.
    - (C2) Strides, dilations and groups are positive, padding is not negative; all are
      less than 2^31.
    - (C3) The channels of `x` are `groups` times those of `weight`; `groups` divides the
      output channels.
    - (C4) The result has the shape that follows.

    Example:

    ```mlir
    %y = binade.conv %x, %w, %b {strides = array<i64: 2, 2>, padding_low = array<i64: 1, 1>,
          padding_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1}
       : (tensor<4x3x32x32xf32>, tensor<16x3x3x3xf32>, tensor<16xf32>) -> tensor<4x16x16x16xf32>
    ```
  }];
  let arguments = !con((ins FloatTensor:$x, FloatTensor:$weight,
                            Optional<FloatTensor>:$bias),
                       ConvolutionGeometry, (ins Binade_PrecisionArg:$precision));
}

def Binade_ConvInputGradOp : Binade_ConvolutionOp<"conv_input_grad", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "gradient of conv with respect to its input";
  let description = [{
    The transposed convolution of `gradient`, with the geometry of the `conv`. `conv` and
    its two gradients are each other's adjoints. Formats, rounding and special values are
    those of `conv`.

    Constraints: (C1) to (C4) of `conv`, where the result is `x` and `gradient` is `y`.

    Example:

    ```mlir
    %dx = binade.conv_input_grad %dy, %w
         {strides = array<i64: 2, 2>, padding_low = array<i64: 1, 1>,
          padding_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1}
       : (tensor<4x16x16x16xf32>, tensor<16x3x3x3xf32>) -> tensor<4x3x32x32xf32>
    ```
  }];
  let arguments = !con((ins FloatTensor:$gradient, FloatTensor:$weight),
                       ConvolutionGeometry, (ins Binade_PrecisionArg:$precision));
}

def Binade_ConvWeightGradOp : Binade_ConvolutionOp<"conv_weight_grad", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let activations = 2;
  let givesActivation = 0;
  let summary = "gradient of conv with respect to its weight";
  let description = [{
    Sums over the batch and the positions, with the geometry of the `conv`. `conv` and its
    two gradients are each other's adjoints. Formats, rounding and special values are those
    of `conv`.

    Constraints: (C1) to (C4) of `conv`, where the result is `weight` and `gradient` is `y`.

    Example:

    ```mlir
    %dw = binade.conv_weight_grad %dy, %x
         {strides = array<i64: 2, 2>, padding_low = array<i64: 1, 1>,
          padding_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1}
       : (tensor<4x16x16x16xf32>, tensor<4x3x32x32xf32>) -> tensor<16x3x3x3xf32>
    ```
  }];
  let arguments = !con((ins FloatTensor:$gradient, FloatTensor:$x),
                       ConvolutionGeometry, (ins Binade_PrecisionArg:$precision));
}

#endif // BINADE_IR_OPS_CONVOLUTION_TD
