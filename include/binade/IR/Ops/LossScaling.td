//===- LossScaling.td - the scale of the loss and its state ---------------===//

#ifndef BINADE_IR_OPS_LOSSSCALING_TD
#define BINADE_IR_OPS_LOSSSCALING_TD

include "binade/IR/Ops/Base.td"

def Binade_GradientSeedOp : Binade_Op<"gradient_seed", [
    Pure, NotDifferentiable,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>]> {
  let summary = "the cotangent of the loss: 1, or the loss scale";
  let description = [{
    Differentiation starts here. Loss scaling hands the scale in as operand, which
    is the gradient of `scale * loss`.
  }];
  let arguments = (ins Optional<StaticF32Tensor>:$scale);
  let results = (outs StaticF32Tensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Binade_UnscaleFactorOp : Binade_Op<"unscale_factor", [
    Pure, NotDifferentiable,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>]> {
  let summary = "what gradients are multiplied by: 1, or 1 / the loss scale";
  let description = [{
    The counterpart of `gradient_seed`. The quotient is formed in f64 and rounded to
    f32 once.
  }];
  let arguments = (ins Optional<StaticF32Tensor>:$scale);
  let results = (outs StaticF32Tensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Binade_UpdateScaleOp : Binade_Op<"update_scale", [
    Pure, NotDifferentiable,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>]> {
  let summary = "dynamic loss scaling by PyTorch's GradScaler rule";
  let description = [{
    After a step with a non-finite gradient: scale times `backoff`, growth count 0.
    After `interval` good steps in a row: scale times `growth` where that is finite,
    count 0. Products are formed in f64 and rounded to f32.
  }];
  let arguments = (ins StaticF32Tensor:$scale, IntegerTensor:$growth_count,
                       BoolTensor:$found_inf, F64Attr:$growth, F64Attr:$backoff,
                       I64Attr:$interval);
  let results = (outs StaticF32Tensor:$new_scale, IntegerTensor:$new_growth_count);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif // BINADE_IR_OPS_LOSSSCALING_TD
