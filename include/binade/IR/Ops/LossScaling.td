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
  let arguments = (ins Optional<F32Scalar>:$scale);
  let results = (outs F32Scalar:$y);
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
  let arguments = (ins Optional<F32Scalar>:$scale);
  let results = (outs F32Scalar:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Binade_UpdateScaleOp : Binade_Op<"update_scale", [
    Pure, NotDifferentiable, AllTypesMatch<["growth_count", "new_growth_count"]>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>]> {
  let summary = "dynamic loss scaling by PyTorch's GradScaler rule";
  let description = [{
    After a step with a non-finite gradient: scale times `backoff`, growth count 0.
    After `interval` good steps in a row: scale times `growth` where that is finite,
    count 0. Products are formed in f64 and rounded to f32.

    - (C1) `growth` is above 1, `backoff` in (0, 1), `interval` at least 1.
  }];
  let arguments = (ins F32Scalar:$scale, IntegerScalar:$growth_count,
                       BoolScalar:$found_inf, F64Attr:$growth, F64Attr:$backoff,
                       I64Attr:$interval);
  let results = (outs F32Scalar:$new_scale, IntegerScalar:$new_growth_count);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // BINADE_IR_OPS_LOSSSCALING_TD
