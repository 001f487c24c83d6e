//===- Normalization.td - softmax, layer and batch norm -------------------===//

#ifndef BINADE_IR_OPS_NORMALIZATION_TD
#define BINADE_IR_OPS_NORMALIZATION_TD

include "binade/IR/Ops/Base.td"

// An op of this family decomposes; statistics and parameters stay in f32.
class Binade_NormalizationOp<string mnemonic, string precisionClass,
                             list<Trait> traits = []>
    : Binade_PrecisionOp<mnemonic, precisionClass, !listconcat(traits, [
          Pure, InferTypeOpAdaptorWithIsCompatible,
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
  let description = "exp(x - max) / sum exp(x - max), f32 inside.";
  let arguments = (ins FloatTensor:$x, Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$y);
  let schedule = "RowReduction";
}

def Binade_SoftmaxGradOp : Binade_NormalizationOp<"softmax_grad", "Infer",
    [NotDifferentiable]> {
  let summary = "gradient of softmax: y (dy - sum(dy y))";
  let arguments = (ins FloatTensor:$gradient, FloatTensor:$y,
                       Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$dx);
  let schedule = "RowReduction";
}

def Binade_LogSoftmaxOp : Binade_NormalizationOp<"log_softmax", "Deny", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let extraClassDeclaration = "bool ignoresMasked() { return true; }";
  let summary = "logarithm of softmax over the last axis";
  let arguments = (ins FloatTensor:$x, Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$y);
  let schedule = "RowReduction";
}

def Binade_LogSoftmaxGradOp : Binade_NormalizationOp<"log_softmax_grad", "Deny",
    [NotDifferentiable]> {
  let summary = "gradient of log_softmax: dy - exp(y) sum(dy)";
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
    `y = (x - mean) rstd scale + bias` with the population variance and `rstd =
    1 / sqrt(variance + epsilon)` (Ba, Kiros, Hinton, 2016). `mean` and `rstd`,
    one per row, are results because the gradients read them.
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
  let summary = "gradient of layer_norm with respect to its input";
  let description = [{
    With n = (x - mean) rstd and g = dy scale: dx = rstd (g - mean(g) - n mean(g n)).
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
  let summary = "gradients of layer_norm with respect to scale and bias";
  let description = "dscale = sum dy (x - mean) rstd, dbias = sum dy, over all rows.";
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
    `y = x rstd scale` with `rstd = 1 / sqrt(mean(x^2) + epsilon)` (Zhang, Sennrich,
    2019). `rstd`, one per row, is a result because the gradients read it.
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
  let summary = "gradient of rms_norm with respect to its input";
  let description = "With n = x rstd and g = dy scale: dx = rstd (g - n mean(g n)).";
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
  let summary = "gradient of rms_norm with respect to its scale";
  let description = "dscale = sum dy x rstd, over all rows.";
  let arguments = (ins FloatTensor:$gradient, FloatTensor:$x, StaticF32Tensor:$rstd,
                       Binade_PrecisionArg:$precision);
  let results = (outs StaticF32Tensor:$dscale);
  let schedule = "ColumnReduction";
}

//===----------------------------------------------------------------------===//
// Batch normalization over all axes but `axis`
//===----------------------------------------------------------------------===//

// Works on the entries of `axis`, wherever it stands.
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
    The gradient through the statistics is part of `batch_norm`'s with `training`.
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
  let summary = "batch normalization with given statistics";
  let description = [{
    `y = (x - mean) / sqrt(variance + epsilon) scale + bias`, one number per
    channel (Ioffe, Szegedy, 2015). With `training` the statistics are those of
    `x` itself and the gradient flows through them.
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
    With n = (x - mean) rstd over M elements per channel: dx = scale rstd (dy -
    [training] (dbias + n dscale) / M).
  }];
  let arguments = (ins FloatTensor:$gradient, FloatTensor:$x, FloatTensor:$scale,
                       StaticF32Tensor:$mean, StaticF32Tensor:$variance, StaticF32Tensor:$dscale,
                       StaticF32Tensor:$dbias, F64Attr:$epsilon, I64Attr:$axis,
                       UnitAttr:$training, Binade_PrecisionArg:$precision);
  let results = (outs FloatTensor:$dx);
  let schedule = "Elementwise";
}

#endif // BINADE_IR_OPS_NORMALIZATION_TD
