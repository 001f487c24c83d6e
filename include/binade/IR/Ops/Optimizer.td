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
    the formulas take them. Functions beside this op are the formulas:

    - `@<name>.scalars(step: i64, hypers...: f64) -> f64...`, run once per step; `step`
      counts from 1. Its results are rounded to f32 once.
    - `@<name>.update(parameter, gradient, states..., scalars..., values...: f32) ->
      (parameter, states...: f32)`: one element, operations in the order written. A last
      argument of the role `rng` is a random number, uniform in [0, 1).
    - `@<name>.prepare(parameter, gradient, states..., scalars...) -> (states...,
      values...)`, where an update depends on more than one element: ops of this
      dialect on whole tensors of f32. `values` go to every update, numbers as they
      are, tensors element by element.

    A `prepare` is written for one shape that stands for all: in
    `tensor<2x3xf32>`, 2 stands for the number of rows, which is the length of the
    first axis, and 3 for that of all others; in `tensor<2xf32>`, 2 stands for the
    number of elements. Its parameter, gradient, and states and values of that
    shape, have the shape of the update's parameter; states of other shapes are its
    results, and `update` knows nothing of them.

    `@<name>.prepare.<form>` takes the place of `prepare` for parameters of that
    form: `embedding`, `scale`, `shift`, `vector` (the last two) or `tall` (a matrix
    of more rows than columns). A user may name any other form. One more `.shrink`
    behind the name makes the form for runs that do not skip gradients that are not
    finite, but let the rule answer to them; `@<name>.update.shrink`, where there is one,
    takes the place of `update` in such runs. A `prepare` may call others.

    `kinds` are the parameters that the optimizer is for, all where nothing is said;
    the rest is updated by `others`, a rule of the library, whose hyper-parameters
    have the values of those here that have their name. `variants` are names for
    other defaults: `variants = {cv = {beta = 0.945}}`.

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
                       TypedArrayAttrBase<Binade_SettingAttr, "hypers">:$hypers,
                       OptionalAttr<TypedArrayAttrBase<Binade_ParameterKindAttr,
                                                       "kinds">>:$kinds,
                       OptionalAttr<StrAttr>:$others,
                       OptionalAttr<DictionaryAttr>:$variants);
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
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "getSegments",
                               "buildWithoutElements"]>]> {
  let summary = "sum of squares and finiteness of all gradients, in one pass";
  let description = [{
    `found_inf` is whether the largest magnitude, compared as bits, is at least that
    of infinity: no NaN is lost. `squares` is an f64 sum in a fixed order.
  }];
  let arguments = (ins Variadic<FloatTensor>:$gradients);
  let results = (outs F64Scalar:$squares, BoolScalar:$found_inf);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Binade_OptimizerUpdateOp : Binade_Op<"optimizer_update", [
    Pure, NotDifferentiable, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "decompose",
                               "buildWithoutElements"]>]> {
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
    | `stochastic` | the parameter | | `q`, rounded by chance |
    | `kahan` | the parameter | `c = (w - parameter) - y` | `w = parameter + y`, `y = (q - p) - c` |

    Differences and sums of `kahan` are computed in f32 and, all but `q - p`, rounded
    to the parameter's format, which is that of `c`.

    Rounding by chance is that of `#binade.quantized`. For an element there are the four
    words that Philox4x32-10 draws from the counter (index low, index high, stream, step)
    with `random` = (seed, step + 2^32 stream): the first is the parameter's, the next are
    those of the states in their order; the upper 24 bits count. A formula that draws has
    the first word of stream + 2^30.

    A state may be kept quantized: `formats` has a `#binade.quantized` for it, and a
    unit for each state that is a tensor, or `#binade.stochastic` for one that is rounded
    by chance. Instead of a quantized state, codes, scales and what else the format
    keeps stand in its place. They are decoded before the rule is applied; what it
    gives is encoded, saturating, once the groups are complete: the new parameter
    follows from states that are not rounded yet.

    `storage` is a decision that has not been carried out, or was: types say which.

    `prepare` names the rule's function of that kind as long as it has not been
    applied: then the op stands for both. `values` are what it gave.

    - (C1) parameter, gradient and states have one shape, or states are what their
      format keeps of it. With `prepare`, states have the shape that it says.
    - (C2) states, scalars and values are as many as the rule says, and one state
      more where `master` keeps one.
    - (C3) what `master` keeps has the type above; it needs a parameter of 16 bits,
      and bf16 for `split_round` and `split_trunc`.
    - (C4) There are two numbers as `random` where something is rounded by chance or
      the formula draws, otherwise none.
    - (C5) Formats are `per_group`, of a power of two from 16 to 16384.
    - (C6) Values are numbers or have the parameter's shape; there are none beside
      `prepare`.
    - (C7) States that are rounded by chance are among the first three.
  }];
  let arguments = (ins FlatSymbolRefAttr:$optimizer, FloatTensor:$parameter,
                       FloatTensor:$gradient, Variadic<Tensor>:$states,
                       Variadic<F32Scalar>:$scalars,
                       Variadic<StaticF32Tensor>:$values,
                       Variadic<F32Scalar>:$factors,
                       Optional<BoolScalar>:$skip, Variadic<I64Scalar>:$random,
                       DefaultValuedOptionalAttr<Binade_MasterAttr,
                           "::mlir::binade::Master::None">:$master,
                       OptionalAttr<ArrayAttr>:$formats,
                       OptionalAttr<FlatSymbolRefAttr>:$prepare,
                       OptionalAttr<Binade_StorageAttr>:$storage);
  let results = (outs FloatTensor:$new_parameter, Variadic<Tensor>:$new_states);
  let assemblyFormat = [{
    $optimizer $parameter `,` $gradient (`states` `(` $states^ `)`)?
    (`scalars` `(` $scalars^ `)`)? (`values` `(` $values^ `)`)? (`factors` `(` $factors^ `)`)?
    (`skip` `(` $skip^ `)`)? (`random` `(` $random^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$types,
      "::llvm::StringRef":$optimizer, "::mlir::Value":$parameter,
      "::mlir::Value":$gradient, "::mlir::ValueRange":$states,
      "::mlir::ValueRange":$scalars, "::mlir::ValueRange":$factors,
      "::mlir::Value":$skip, "::mlir::FlatSymbolRefAttr":$prepare)>];
  let extraClassDeclaration = [{
    /// The function of the rule that this op applies, by name.
    StringAttr getFormula();
    /// What `master` keeps beside the parameter; null where it keeps nothing.
    Value getBeside();
    /// The states that the rule speaks of, or what they are kept as.
    OperandRange getRuleStates();
    /// Each state that the rule speaks of.
    SmallVector<KeptState> getKeptStates();
    /// Whether parameter or states are rounded by chance.
    bool roundsRandomly();
    /// Whether a state has an element for each of the parameter.
    bool isElementwise(const KeptState &state);
  }];
  let hasVerifier = 1;
}

#endif // BINADE_IR_OPS_OPTIMIZER_TD
