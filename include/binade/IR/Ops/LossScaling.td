//===- LossScaling.td - static and dynamic loss scaling -------------------===//

#ifndef BINADE_IR_OPS_LOSSSCALING_TD
#define BINADE_IR_OPS_LOSSSCALING_TD

include "binade/IR/Ops/Base.td"

def Binade_GradientSeedOp : Binade_Op<"gradient_seed", [
    Pure, NotDifferentiable,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>]> {
  let summary = "the cotangent of the loss: 1, or the loss scale";
  let description = [{
    The backward pass starts from this value. With a loss scale as operand, all gradients
    are those of `scale * loss`. The result is f32. The op has no gradient.

    Example:

    ```mlir
    %seed = binade.gradient_seed : () -> tensor<f32>
    %scaled = binade.gradient_seed %scale : (tensor<f32>) -> tensor<f32>
    ```
  }];
  let arguments = (ins Optional<F32Scalar>:$scale);
  let results = (outs F32Scalar:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Binade_UnscaleFactorOp : Binade_Op<"unscale_factor", [
    Pure, NotDifferentiable,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "decompose"]>]> {
  let summary = "factor that removes loss scale and batch count from gradients";
  let description = [{
    `1 / (scale * batches)`, computed in f64 and rounded to f32 once. `scale` is 1 where it
    is not given. `batches` is the number of batches whose gradients are added up, so that
    the update uses their mean. The op has no gradient.

    Constraints:

    - (C1) `batches` is at least 1.

    Example:

    ```mlir
    %factor = binade.unscale_factor %scale {batches = 4} : (tensor<f32>) -> tensor<f32>
    ```
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
    After a step with a non-finite gradient (`found_inf`), the scale is multiplied by
    `backoff`, but becomes at least `min` and 2^-126, whose reciprocal is finite in f32; the
    growth count becomes -`delay`. Otherwise the count is incremented. When it reaches
    `interval`, the count becomes 0, and the scale is multiplied by `growth` if the product is
    finite, but becomes at most `max`. Products are computed in f64 and rounded to f32.
    Without the optional attributes this is the rule of PyTorch's GradScaler, except for the
    limit of 2^-126.

    With a `hysteresis` above 1, the first `hysteresis` - 1 overflows leave the scale
    unchanged: each decrements `hysteresis_left`, and an overflow at 1 lowers the scale.
    `hysteresis_left` is reset to `hysteresis` when the growth count reaches `interval` or,
    with `consecutive_hysteresis`, after every step without overflow. The first `delay` steps
    without overflow after an overflow do not count towards growth, nor do those at the start,
    because the count starts at -`delay`. These are options of DeepSpeed.

    Constraints:

    - (C1) `growth` is above 1, `backoff` in (0, 1), `interval` at least 1.
    - (C2) 0 <= `min` <= `max`.
    - (C3) `delay` is at least 0, `hysteresis` at least 1.
    - (C4) The operand `hysteresis_left` and the result `new_hysteresis_left` exist if
      `hysteresis` is above 1, and have one type.

    Example:

    ```mlir
    %new, %count_new = binade.update_scale %scale, %count, %found_inf
       {growth = 2.0, backoff = 0.5, interval = 2000}
       : (tensor<f32>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>)
    ```
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
  let summary = "raises a loss scale at which too many gradients underflow";
  let description = [{
    Runs in the same step after `update_scale`, on its results. `vanished` is the number of
    elements of gradients that became 0 when they were rounded, `nonzero` the number of those
    that were not 0 before, and `amax` the largest magnitude of the scaled gradients.

    The scale is too small if `growth_count` is a positive multiple of `check`, and `vanished`
    is more than `limit` times `nonzero`. If then `amax` times `growth` is at most `largest`,
    the scale is multiplied by `growth` and the count becomes 0; otherwise no scale suits all
    gradients, and `infeasible` is true. In all other cases scale and count do not change.

    Constraints:

    - (C1) `growth` is above 1, `check` at least 1, `limit` in [0, 1], `largest`
      above 0.

    Example:

    ```mlir
    %new, %count_new, %infeasible = binade.raise_scale %scale, %count, %vanished, %nonzero, %amax
       {growth = 2.0, check = 100, limit = 0.01, largest = 16376.0}
       : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<f32>)
         -> (tensor<f32>, tensor<i64>, tensor<i1>)
    ```
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
