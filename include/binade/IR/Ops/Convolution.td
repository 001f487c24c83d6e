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
                                    ["countProducts", "getOperandFormat",
                                     "findFallback"]>,
          DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule"]>,
          DeclareOpInterfaceMethods<LayoutOpInterface,
                                    ["chooseLayouts", "applyLayouts"]>])> {
  // How many of the first operands are activations, and whether the result is.
  int activations = 1;
  bit givesActivation = 1;
  let results = (outs FloatTensor:$y);
  let hasVerifier = 1;
  let extraClassDefinition = classDefinition # [{
    std::optional<int64_t> $cppClass::countProducts() {
      return countConvolutionProducts(*this);
    }
    std::optional<Fallback> $cppClass::findFallback() {
      return findConvolutionFallback(*this);
    }
    FormatRole $cppClass::getOperandFormat(unsigned index) {
      return index < 2 ? FormatRole::Chosen : FormatRole::Wide; // bias
    }
    Schedule $cppClass::getSchedule() { return Schedule::Library; }
    // Libraries are fast where the channels of a position stand side by side.
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
    As ONNX `Conv`: `y[n, o, p] = bias[o] + sum x[n, c, p stride + k dilation -
    padding_low] weight[o, c, k]`.

    Constraints:

    - (C1) `x` and `weight` have one rank of 3, 4 or 5, and each geometry list one
      entry per spatial axis.
    - (C2) strides, dilations and groups are positive, padding is not negative;
      none exceeds 31 bits.
    - (C3) channels of `x` = groups times channels of `weight`; groups divide the
      output channels.
    - (C4) the result has the shape that follows.
  }];
  let arguments = !con((ins FloatTensor:$x, FloatTensor:$weight,
                            Optional<FloatTensor>:$bias),
                       ConvolutionGeometry, (ins Binade_PrecisionArg:$precision));
}

def Binade_ConvInputGradOp : Binade_ConvolutionOp<"conv_input_grad", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "gradient of conv with respect to its input";
  let description = [{
    A transposed convolution of `gradient`: `conv` and its two gradients are each
    others' adjoints.
  }];
  let arguments = !con((ins FloatTensor:$gradient, FloatTensor:$weight),
                       ConvolutionGeometry, (ins Binade_PrecisionArg:$precision));
}

def Binade_ConvWeightGradOp : Binade_ConvolutionOp<"conv_weight_grad", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let activations = 2;
  let givesActivation = 0;
  let summary = "gradient of conv with respect to its weight";
  let arguments = !con((ins FloatTensor:$gradient, FloatTensor:$x),
                       ConvolutionGeometry, (ins Binade_PrecisionArg:$precision));
}

#endif // BINADE_IR_OPS_CONVOLUTION_TD
