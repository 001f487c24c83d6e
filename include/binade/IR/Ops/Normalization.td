//===- Normalization.td - softmax, layer and batch norm -------------------===//

#ifndef BINADE_IR_OPS_NORMALIZATION_TD
#define BINADE_IR_OPS_NORMALIZATION_TD

include "binade/IR/Ops/Base.td"

// Ops of this family have a decomposition. Statistics and parameters are f32.
class Binade_NormalizationOp<string mnemonic, string precisionClass,
                             list<Trait> traits = []>
    : Binade_PrecisionOp<mnemonic, precisionClass, !listconcat(traits, [
          Pure, InfersTypes,
          DeclareOpInterfaceMethods<KernelOpInterface,
                                    ["getSchedule", "decompose"]>])> {
  code schedule = ?;
  code normalizationDefinition = classDefinition # [{
    Schedule $cppClass::getSchedule() { return Schedule::}] # schedule # [{; }
    bool $cppClass::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
      return haveSameShapes(l, r);
    }
  }];
  let extraClassDefinition = normalizationDefinition;
}

//===----------------------------------------------------------------------===//
// Softmax over the last axis
//===----------------------------------------------------------------------===//

def Binade_SoftmaxOp : Binade_NormalizationOp<"softmax", "Infer", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let extraClassDeclaration = "bool ignoresMasked() { return true; }";
  let summary = "softmax over the last axis";
  let description = [{
    `y = exp(x - max(x)) / sum(exp(x - max(x)))` for each row. All arithmetic is f32, and
    the result is rounded once. A NaN or an infinity in a row makes the row NaN, except that
    minus infinity next to finite elements gives 0. Operand and result have one shape, of
    rank 1 or more; an empty tensor gives an empty tensor. The gradient is `softmax_grad`.

    Example:

    ```mlir
    %y = binade.softmax %x : (tensor<8x64xbf16>) -> tensor<8x64xbf16>
    ```
  }];
  let arguments = (ins FloatTensor:$x, Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$y);
  let schedule = "RowReduction";
}

def Binade_SoftmaxGradOp : Binade_NormalizationOp<"softmax_grad", "Infer",
    [NotDifferentiable]> {
  let extraClassDeclaration = "Linearity getLinearity() { return Linearity::First; }";
  let summary = "gradient of softmax: y (dy - sum(dy y))";
  let description = [{
    `dx = y (gradient - sum(gradient y))` for each row, where `y` is the result of
    `softmax`. All arithmetic is f32, and the result is rounded once. Operands and result
    have one shape.

    Example:

    ```mlir
    %dx = binade.softmax_grad %dy, %y : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$gradient, FloatTensor:$y,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$dx);
  let schedule = "RowReduction";
}

def Binade_LogSoftmaxOp : Binade_NormalizationOp<"log_softmax", "Deny", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let extraClassDeclaration = "bool ignoresMasked() { return true; }";
  let summary = "logarithm of softmax over the last axis";
  let description = [{
    `y = (x - max(x)) - log(sum(exp(x - max(x))))` for each row. All arithmetic is f32, and
    the result is rounded once. A NaN or an infinity in a row makes the row NaN, except that
    minus infinity next to finite elements gives minus infinity. Operand and result have one
    shape, of rank 1 or more; an empty tensor gives an empty tensor. The gradient is
    `log_softmax_grad`.

    Example:

    ```mlir
    %y = binade.log_softmax %x : (tensor<8x64xbf16>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$x, Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$y);
  let schedule = "RowReduction";
}

def Binade_LogSoftmaxGradOp : Binade_NormalizationOp<"log_softmax_grad", "Deny",
    [NotDifferentiable]> {
  let extraClassDeclaration = "Linearity getLinearity() { return Linearity::First; }";
  let summary = "gradient of log_softmax: dy - exp(y) sum(dy)";
  let description = [{
    `dx = gradient - exp(y) sum(gradient)` for each row, where `y` is the result of
    `log_softmax`. All arithmetic is f32, and the result is rounded once. Operands and
    result have one shape.

    Example:

    ```mlir
    %dx = binade.log_softmax_grad %dy, %y
       : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$gradient, FloatTensor:$y,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$dx);
  let schedule = "RowReduction";
}

//===----------------------------------------------------------------------===//
// Layer normalization over the last axis
//===----------------------------------------------------------------------===//

def Binade_LayerNormOp : Binade_NormalizationOp<"layer_norm", "Infer", [
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["getOperandFormat", "getResultFormat",
                               "getOperandRole", "isFactor"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "layer normalization over the last axis";
  let description = [{
    `y = (x - mean) rstd scale + bias` for each row, with the population variance and
    `rstd = 1 / sqrt(variance + epsilon)` (Ba, Kiros, Hinton, 2016). `mean` and `rstd`, one
    element per row, are results because the gradients read them.

    `x` is read and `y` written in the formats of the decision; `scale`, `bias`, `mean`,
    `rstd` and all arithmetic are f32. `y` is rounded once. A NaN or an infinity in a row
    makes the row of `y` NaN. Without rows the results are empty. Gradients are
    `layer_norm_grad` and `layer_norm_param_grad`.

    Constraints: `scale` and `bias` have rank 1 and the length of the last axis of `x`;
    `mean` and `rstd` have the shape of `x` without its last axis.

    Example:

    ```mlir
    %y, %mean, %rstd = binade.layer_norm %x, %scale, %bias {epsilon = 1.0e-5}
       : (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>)
         -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins FloatTensor:$x, FloatTensor:$scale,
                       Optional<FloatTensor>:$bias, F64Attr:$epsilon,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$y, StaticF32Tensor:$mean, StaticF32Tensor:$rstd);
  let schedule = "RowReduction";
}

def Binade_LayerNormGradOp : Binade_NormalizationOp<"layer_norm_grad", "Infer", [
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["getOperandFormat", "getOperandRole"]>,
    NotDifferentiable]> {
  let extraClassDeclaration = "Linearity getLinearity() { return Linearity::First; }";
  let summary = "gradient of layer_norm with respect to its input";
  let description = [{
    With `n = (x - mean) rstd` and `g = gradient scale`, for each row:
    `dx = rstd (g - mean(g) - n mean(g n))`. All arithmetic is f32, and the result is
    rounded once.

    Example:

    ```mlir
    %dx = binade.layer_norm_grad %dy, %x, %scale, %mean, %rstd
       : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<64xf32>, tensor<8xf32>, tensor<8xf32>)
         -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$gradient, FloatTensor:$x, FloatTensor:$scale,
                       StaticF32Tensor:$mean, StaticF32Tensor:$rstd,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$dx);
  let schedule = "RowReduction";
}

def Binade_LayerNormParamGradOp
    : Binade_NormalizationOp<"layer_norm_param_grad", "Infer", [
          DeclareOpInterfaceMethods<PrecisionOpInterface,
                                    ["getOperandFormat", "getResultFormat"]>,
          NotDifferentiable]> {
  let extraClassDeclaration = "Linearity getLinearity() { return Linearity::First; }";
  let summary = "gradients of layer_norm with respect to scale and bias";
  let description = [{
    `dscale = sum(gradient (x - mean) rstd)` and `dbias = sum(gradient)` over all rows, in
    f32 and in a fixed order. Without rows both are 0.

    Example:

    ```mlir
    %dscale, %dbias = binade.layer_norm_param_grad %dy, %x, %mean, %rstd
       : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
         -> (tensor<64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = (ins FloatTensor:$gradient, FloatTensor:$x,
                       StaticF32Tensor:$mean, StaticF32Tensor:$rstd,
                       Binade_PrecisionArg:$precision);
  let results = (outs StaticF32Tensor:$dscale, StaticF32Tensor:$dbias);
  let schedule = "ColumnReduction";
}

//===----------------------------------------------------------------------===//
// Root mean square normalization over the last axis
//===----------------------------------------------------------------------===//

def Binade_RmsNormOp : Binade_NormalizationOp<"rms_norm", "Infer", [
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["getOperandFormat", "getResultFormat",
                               "getOperandRole", "isFactor"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "root mean square normalization over the last axis";
  let description = [{
    `y = x rstd scale` for each row, with `rstd = 1 / sqrt(mean(x^2) + epsilon)` (Zhang,
    Sennrich, 2019). `rstd`, one element per row, is a result because the gradients read it.

    `x` is read and `y` written in the formats of the decision; `scale`, `rstd` and all
    arithmetic are f32. `y` is rounded once. A NaN makes its row of `y` NaN; an infinity
    makes its own element NaN and the others of the row 0. Without rows the results are
    empty. Gradients are `rms_norm_grad` and `rms_norm_scale_grad`.

    Constraints: `scale` has rank 1 and the length of the last axis of `x`; `rstd` has the
    shape of `x` without its last axis.

    Example:

    ```mlir
    %y, %rstd = binade.rms_norm %x, %scale {epsilon = 1.0e-5}
       : (tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins FloatTensor:$x, FloatTensor:$scale, F64Attr:$epsilon,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$y, StaticF32Tensor:$rstd);
  let schedule = "RowReduction";
}

def Binade_RmsNormGradOp : Binade_NormalizationOp<"rms_norm_grad", "Infer", [
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["getOperandFormat", "getOperandRole"]>,
    NotDifferentiable]> {
  let extraClassDeclaration = "Linearity getLinearity() { return Linearity::First; }";
  let summary = "gradient of rms_norm with respect to its input";
  let description = [{
    With `n = x rstd` and `g = gradient scale`, for each row: `dx = rstd (g - n mean(g n))`.
    All arithmetic is f32, and the result is rounded once.

    Example:

    ```mlir
    %dx = binade.rms_norm_grad %dy, %x, %scale, %rstd
       : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<64xf32>, tensor<8xf32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$gradient, FloatTensor:$x, FloatTensor:$scale,
                       StaticF32Tensor:$rstd, Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$dx);
  let schedule = "RowReduction";
}

def Binade_RmsNormScaleGradOp
    : Binade_NormalizationOp<"rms_norm_scale_grad", "Infer", [
          DeclareOpInterfaceMethods<PrecisionOpInterface,
                                    ["getOperandFormat", "getResultFormat"]>,
          NotDifferentiable]> {
  let extraClassDeclaration = "Linearity getLinearity() { return Linearity::First; }";
  let summary = "gradient of rms_norm with respect to its scale";
  let description = [{
    `dscale = sum(gradient x rstd)` over all rows, in f32 and in a fixed order. Without
    rows it is 0.

    Example:

    ```mlir
    %dscale = binade.rms_norm_scale_grad %dy, %x, %rstd
       : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8xf32>) -> tensor<64xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$gradient, FloatTensor:$x, StaticF32Tensor:$rstd,
                       Binade_PrecisionArg:$precision);
  let results = (outs StaticF32Tensor:$dscale);
  let schedule = "ColumnReduction";
}

//===----------------------------------------------------------------------===//
// Batch normalization over all axes but `axis`
//===----------------------------------------------------------------------===//

// Ops with one statistic per index of `axis`, in any layout.
class Binade_PerChannelOp<string mnemonic, string precisionClass,
                          list<Trait> traits = []>
    : Binade_NormalizationOp<mnemonic, precisionClass, !listconcat(traits, [
          DeclareOpInterfaceMethods<LayoutOpInterface, ["applyLayouts"]>])> {
  let extraClassDefinition = normalizationDefinition # [{
    void $cppClass::applyLayouts(const Layouts &chosen) {
      setAxis(findAxis(chosen.operands.front(), getAxis()));
    }
  }];
}

def Binade_BatchNormStatisticsOp
    : Binade_PerChannelOp<"batch_norm_statistics", "Infer", [
          DeclareOpInterfaceMethods<PrecisionOpInterface, ["getResultFormat"]>,
          NotDifferentiable]> {
  let summary = "mean and population variance of each channel of a batch";
  let description = [{
    Mean and variance over all axes but `axis`, in f32 and in a fixed order. A NaN or an
    infinity makes those of its channel non-finite. Without elements both are NaN: a mean
    over nothing is 0 / 0.

    The op has no adjoint of its own: the gradient through the statistics is part of that
    of `batch_norm` with `training`.

    Constraints: `axis` is an axis of `x`; the results have rank 1 and its length.

    Example:

    ```mlir
    %mean, %variance = binade.batch_norm_statistics %x {axis = 1}
       : (tensor<4x3x5xf32>) -> (tensor<3xf32>, tensor<3xf32>)
    ```
  }];
  let arguments = (ins FloatTensor:$x, I64Attr:$axis,
                       Binade_PrecisionArg:$precision);
  let results = (outs StaticF32Tensor:$mean, StaticF32Tensor:$variance);
  let schedule = "ColumnReduction";
}

def Binade_BatchNormOp : Binade_PerChannelOp<"batch_norm", "Infer", [
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["getOperandFormat", "getOperandRole", "isFactor"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<TrainingOpInterface>]> {
  let summary = "batch normalization by given statistics";
  let description = [{
    `y = (x - mean) / sqrt(variance + epsilon) scale + bias`, with one element of each
    statistic and parameter per channel, that is per index of `axis` (Ioffe, Szegedy, 2015).
    With `training` the statistics are those of `x` itself, and the gradient flows through
    them; without it they are constants.

    `x` is read and `y` written in the formats of the decision; everything else is f32. `y`
    is rounded once. NaN and infinities propagate as in the formula; a NaN among the
    statistics makes the whole channel NaN. An empty tensor gives an empty tensor. Gradients
    are `batch_norm_grad` and `batch_norm_param_grad`.

    In evaluation, `batch_norm` with `training` reads the running statistics instead, if the
    model has some (`TrainingOpInterface`).

    Example:

    ```mlir
    %y = binade.batch_norm %x, %scale, %bias, %mean, %variance
       {axis = 1, epsilon = 1.0e-5, training}
       : (tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
         -> tensor<4x3x5xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$x, FloatTensor:$scale, FloatTensor:$bias,
                       StaticF32Tensor:$mean, StaticF32Tensor:$variance, F64Attr:$epsilon,
                       I64Attr:$axis, UnitAttr:$training,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$y);
  let schedule = "Elementwise";
}

def Binade_BatchNormParamGradOp
    : Binade_PerChannelOp<"batch_norm_param_grad", "Infer", [
          DeclareOpInterfaceMethods<KernelOpInterface, ["buildWithoutElements"]>,
          DeclareOpInterfaceMethods<PrecisionOpInterface,
                                    ["getOperandFormat", "getResultFormat"]>,
          NotDifferentiable]> {
  let summary = "gradients of batch_norm with respect to scale and bias";
  let description = [{
    `dscale = sum(gradient (x - mean) / sqrt(variance + epsilon))` and
    `dbias = sum(gradient)` per channel, in f32 and in a fixed order. Without elements both
    are 0.

    Example:

    ```mlir
    %dscale, %dbias = binade.batch_norm_param_grad %dy, %x, %mean, %variance
       {axis = 1, epsilon = 1.0e-5}
       : (tensor<4x3x5xf32>, tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>)
         -> (tensor<3xf32>, tensor<3xf32>)
    ```
  }];
  let arguments = (ins FloatTensor:$gradient, FloatTensor:$x, StaticF32Tensor:$mean,
                       StaticF32Tensor:$variance, F64Attr:$epsilon, I64Attr:$axis,
                       Binade_PrecisionArg:$precision);
  let results = (outs StaticF32Tensor:$dscale, StaticF32Tensor:$dbias);
  let schedule = "ColumnReduction";
}

def Binade_BatchNormGradOp : Binade_PerChannelOp<"batch_norm_grad", "Infer", [
    DeclareOpInterfaceMethods<PrecisionOpInterface,
                              ["getOperandFormat", "getOperandRole"]>,
    NotDifferentiable]> {
  let summary = "gradient of batch_norm with respect to its input";
  let description = [{
    With `rstd = 1 / sqrt(variance + epsilon)`, `n = (x - mean) rstd` and M elements per
    channel: `dx = scale rstd (gradient - (dbias + n dscale) / M)` with `training`, and
    `dx = scale rstd gradient` without. All arithmetic is f32, and the result is rounded
    once.

    Example:

    ```mlir
    %dx = binade.batch_norm_grad %dy, %x, %scale, %mean, %variance, %dscale, %dbias
       {axis = 1, epsilon = 1.0e-5, training}
       : (tensor<4x3x5xf32>, tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>,
          tensor<3xf32>, tensor<3xf32>) -> tensor<4x3x5xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$gradient, FloatTensor:$x, FloatTensor:$scale,
                       StaticF32Tensor:$mean, StaticF32Tensor:$variance, StaticF32Tensor:$dscale,
                       StaticF32Tensor:$dbias, F64Attr:$epsilon, I64Attr:$axis,
                       UnitAttr:$training, Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$dx);
  let schedule = "Elementwise";
}

#endif // BINADE_IR_OPS_NORMALIZATION_TD
