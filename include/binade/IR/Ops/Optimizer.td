//===- Optimizer.td - rules and updates -----------------------------------===//

#ifndef BINADE_IR_OPS_OPTIMIZER_TD
#define BINADE_IR_OPS_OPTIMIZER_TD

include "binade/IR/Ops/Base.td"
include "mlir/IR/SymbolInterfaces.td"

def Binade_OptimizerOp : Binade_Op<"optimizer", [Symbol]> {
  let summary = "an optimizer: its states, hyper-parameters and formulas";
  let description = [{
    `states` are the tensors kept per parameter with their initial value, `hypers`
    the run-time scalars with their defaults and bounds, both in the order in which
    the formulas take them. Two functions beside this op are the formulas:

    - `@<name>.scalars(step: i64, hypers...: f64) -> f64...`, run once per step; `step`
      counts from 1. Its results are rounded to f32 once.
    - `@<name>.update(parameter, gradient, states..., scalars...: f32) ->
      (parameter, states...: f32)`: one element, operations in the order written.

    Example:

    ```mlir
    binade.optimizer @sgd {
      states = [#binade.setting<"momentum" = 0.0>],
      hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>,
                #binade.setting<"momentum" = 0.0 min 0.0>]}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypedArrayAttrBase<Binade_SettingAttr, "states">:$states,
                       TypedArrayAttrBase<Binade_SettingAttr, "hypers">:$hypers);
  let assemblyFormat = "$sym_name attr-dict";
  let hasVerifier = 1;
}

// An op whose meaning is a function of the optimizer's rule.
class Binade_RuleOp<string mnemonic, string schedule, list<Trait> traits = []>
    : Binade_Op<mnemonic, !listconcat(traits, [
          Pure, NotDifferentiable,
          DeclareOpInterfaceMethods<SymbolUserOpInterface>,
          DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule"]>])> {
  code formula = ?;
  let extraClassDeclaration = [{
    /// The function of the rule that this op applies, by name.
    StringAttr getFormula();
  }];
  let extraClassDefinition = [{
    Schedule $cppClass::getSchedule() { return Schedule::}] # schedule # [{; }
    StringAttr $cppClass::getFormula() {
      return StringAttr::get(getContext(), getOptimizer() + ".}] # formula # [{");
    }
  }];
}

def Binade_OptimizerScalarsOp : Binade_RuleOp<"optimizer_scalars", "Scalars"> {
  let summary = "the per-step scalars of an optimizer";
  let description = [{
    Applies `@<optimizer>.scalars` to the number of this step, which is one more than
    the number of applied steps `step`, and to the hyper-parameters.
  }];
  let arguments = (ins FlatSymbolRefAttr:$optimizer, IntegerScalar:$step,
                       Variadic<F64Scalar>:$hypers);
  let results = (outs Variadic<F32Scalar>:$scalars);
  let assemblyFormat = [{
    $optimizer `(` operands `)` attr-dict `:` functional-type(operands, results)
  }];
  let formula = "scalars";
}

def Binade_GradientStatisticsOp : Binade_Op<"gradient_statistics", [
    Pure, NotDifferentiable,
    DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule", "getSegments"]>]> {
  let summary = "sum of squares and finiteness of all gradients, in one pass";
  let description = [{
    `found_inf` is whether the largest magnitude, compared as bits, is at least that
    of infinity: no NaN is lost. `squares` is an f64 sum in a fixed order.
  }];
  let arguments = (ins Variadic<FloatTensor>:$gradients);
  let results = (outs F64Scalar:$squares, BoolScalar:$found_inf);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Binade_OptimizerUpdateOp : Binade_RuleOp<"optimizer_update", "MultiTensor", [
    AttrSizedOperandSegments]> {
  let summary = "the update of one parameter and its states";
  let description = [{
    Multiplies the gradient by `factors` one after the other (unscaling, clipping),
    applies `@<optimizer>.update` to every element, and keeps the old bits of
    parameter and states where `skip` holds. All f32 inside: `p` is the parameter
    before, `q` behind the rule. States are rounded to nearest, ties to even, as `q`
    is where `master` says nothing else:

    | `master` | `p` is | the last state | the parameter becomes |
    |---|---|---|---|
    | `none` | the parameter | | `q` |
    | `f32` | the last state | f32: `q` | `q` |
    | `split_round` | both joined | i16: the low half of `q` | the upper half of `q`, plus one if the low half is negative |
    | `split_trunc` | both joined | i16: the low half of `q` | the upper half of `q` |
    | `stochastic` | the parameter | | `q` with the upper half one further from zero if the low half exceeds a random number |
    | `kahan` | the parameter | `c = (w - parameter) - y` | `w = parameter + y`, `y = (q - p) - c` |

    Differences and sums of `kahan` are computed in f32 and, all but `q - p`, rounded
    to the parameter's format, which is that of `c`. The random number of `stochastic` is the upper half of the word
    that Philox4x32-10 draws from the counter (index low, index high, stream, step)
    with `random` = (seed, step + 2^32 stream); infinities and NaN are not moved.

    A state may be kept quantized: `formats` has a `#binade.quantized` for it, and a
    unit for each state that is a tensor. Then codes, scales and what else the format
    keeps stand in its place. They are decoded before the rule is applied; what it
    gives is encoded, saturating, once the groups are complete: the new parameter
    follows from states that are not rounded yet.

    `storage` is a decision that has not been carried out, or was: types say which.

    - (C1) parameter, gradient and states have one shape, or states are what their
      format keeps of it.
    - (C2) states and scalars are as many as the rule says, and one state more where
      `master` keeps one.
    - (C3) what `master` keeps has the type above; it needs a parameter of 16 bits,
      and bf16 but for `f32` and `kahan`.
    - (C4) `stochastic` has two numbers as `random`, the others none.
    - (C5) Formats are `per_group`, of a power of two from 16 to 16384.
  }];
  let arguments = (ins FlatSymbolRefAttr:$optimizer, FloatTensor:$parameter,
                       FloatTensor:$gradient, Variadic<Tensor>:$states,
                       Variadic<F32Scalar>:$scalars, Variadic<F32Scalar>:$factors,
                       Optional<BoolScalar>:$skip, Variadic<I64Scalar>:$random,
                       DefaultValuedOptionalAttr<Binade_MasterAttr,
                           "::mlir::binade::Master::None">:$master,
                       OptionalAttr<ArrayAttr>:$formats,
                       OptionalAttr<Binade_StorageAttr>:$storage);
  let results = (outs FloatTensor:$new_parameter, Variadic<Tensor>:$new_states);
  let assemblyFormat = [{
    $optimizer $parameter `,` $gradient (`states` `(` $states^ `)`)?
    (`scalars` `(` $scalars^ `)`)? (`factors` `(` $factors^ `)`)?
    (`skip` `(` $skip^ `)`)? (`random` `(` $random^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$types,
      "::llvm::StringRef":$optimizer, "::mlir::Value":$parameter,
      "::mlir::Value":$gradient, "::mlir::ValueRange":$states,
      "::mlir::ValueRange":$scalars, "::mlir::ValueRange":$factors,
      "::mlir::Value":$skip)>];
  let extraClassDeclaration = [{
    /// The function of the rule that this op applies, by name.
    StringAttr getFormula();
    /// What `master` keeps beside the parameter; null where it keeps nothing.
    Value getBeside();
    /// The states that the rule speaks of, or what they are kept as.
    OperandRange getRuleStates();
    /// Each state that the rule speaks of.
    SmallVector<KeptState> getKeptStates();
  }];
  let formula = "update";
  let hasVerifier = 1;
}

#endif // BINADE_IR_OPS_OPTIMIZER_TD
