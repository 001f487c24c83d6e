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
    The counterpart of `gradient_seed`; where gradients are sums of those of some
    `batches`, also what makes means of them. `1 / (scale * batches)` is formed in
    f64 and rounded to f32 once.

    - (C1) `batches` is at least 1.
  }];
  let arguments = (ins Optional<F32Scalar>:$scale,
                       DefaultValuedOptionalAttr<I64Attr, "1">:$batches);
  let results = (outs F32Scalar:$y);
  let hasVerifier = 1;
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Binade_UpdateScaleOp : Binade_Op<"update_scale", [
    Pure, NotDifferentiable, AllTypesMatch<["growth_count", "new_growth_count"]>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>]> {
  let summary = "dynamic loss scaling: the scale of the next step";
  let description = [{
    After a step with a non-finite gradient: scale times `backoff`, growth count
    -`delay`. After `interval` counted good steps: scale times `growth` where that is
    finite, count 0. Products are formed in f64 and rounded to f32; then the scale is
    kept within `min` and `max`, and at 2^-126 at least, by whose reciprocal f32 can
    multiply gradients. But for that and without the optional parts this is the rule of
    PyTorch's GradScaler.

    With a `hysteresis` above 1 only that overflow lowers the scale before which
    `hysteresis` - 1 others were let pass; `hysteresis_left` counts down to 1 and is
    full again when the scale grows, or after every good step with
    `consecutive_hysteresis`. A `delay` of 1 does not count the first good step after
    the start or after an overflow. Both are DeepSpeed's.

    - (C1) `growth` is above 1, `backoff` in (0, 1), `interval` at least 1.
    - (C2) 0 <= `min` <= `max`.
    - (C3) `delay` is at least 0, `hysteresis` at least 1.
    - (C4) `hysteresis_left` and its successor are there if `hysteresis` is above 1,
      and of one type.
  }];
  let arguments = (ins F32Scalar:$scale, IntegerScalar:$growth_count,
                       BoolScalar:$found_inf,
                       Optional<IntegerScalar>:$hysteresis_left,
                       F64Attr:$growth, F64Attr:$backoff, I64Attr:$interval,
                       DefaultValuedAttr<I64Attr, "0">:$delay,
                       OptionalAttr<F64Attr>:$min, OptionalAttr<F64Attr>:$max,
                       DefaultValuedAttr<I64Attr, "1">:$hysteresis,
                       UnitAttr:$consecutive_hysteresis);
  let results = (outs F32Scalar:$new_scale, IntegerScalar:$new_growth_count,
                      Optional<IntegerScalar>:$new_hysteresis_left);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Binade_RaiseScaleOp : Binade_Op<"raise_scale", [
    Pure, NotDifferentiable, AllTypesMatch<["growth_count", "new_growth_count"]>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>]> {
  let summary = "raises a loss scale at which too many gradients vanish";
  let description = [{
    Follows `update_scale`. When `growth_count` is a positive multiple of `check`:
    where more than `limit` of the elements that were not 0 have become 0, the scale
    is multiplied by `growth` and counting starts again, provided that the largest
    scaled gradient `amax` times `growth` is at most `largest`. Where it is not, no
    scale is feasible: the step says so and the scale stays.

    `vanished` elements became 0 when gradients were rounded, out of `nonzero`.

    - (C1) `growth` is above 1, `check` at least 1, `limit` in [0, 1], `largest`
      above 0.
  }];
  let arguments = (ins F32Scalar:$scale, IntegerScalar:$growth_count,
                       IntegerScalar:$vanished, IntegerScalar:$nonzero,
                       F32Scalar:$amax, F64Attr:$growth, I64Attr:$check,
                       F64Attr:$limit, F64Attr:$largest);
  let results = (outs F32Scalar:$new_scale, IntegerScalar:$new_growth_count,
                      BoolScalar:$infeasible);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // BINADE_IR_OPS_LOSSSCALING_TD
