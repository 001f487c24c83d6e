//===- Optimizer.td - rules and updates -----------------------------------===//

#ifndef BINADE_IR_OPS_OPTIMIZER_TD
#define BINADE_IR_OPS_OPTIMIZER_TD

include "binade/IR/Ops/Base.td"
include "mlir/IR/SymbolInterfaces.td"

def Binade_OptimizerOp : Binade_Op<"optimizer", [Symbol]> {
  let summary = "an optimizer: its states, hyper-parameters and formulas";
  let description = [{
    A rule: the states that an optimizer keeps per parameter, its hyper-parameters and its
    formulas. `states` are the names of the states with their initial values, `hypers` the
    hyper-parameters, which are run-time scalars, with their defaults and bounds; both in
    the order in which the formulas take them. The formulas are functions of the module:

    - `@<name>.scalars(step: i64, hypers...: f64) -> f64...` is evaluated once per step;
      `step` counts from 1. Its results are rounded to f32 once.
    - `@<name>.update(parameter, gradient, states..., scalars..., values...: f32) ->
      (parameter, states...: f32)` computes one element, with ops of the arith and math
      dialects in the order written. A last argument of role `rng` is a random number,
      uniform in [0, 1).
    - `@<name>.prepare(parameter, gradient, states..., scalars...) -> (states...,
      values...)` is needed where an update depends on more than one element. It consists
      of ops of this dialect on whole f32 tensors. `update` gets the `values`: scalars as
      they are, tensors element by element.

    A `prepare` is written for one shape that represents all: in `tensor<2x3xf32>`, 2 is
    the length of the first axis and 3 the product of the others; in
    `tensor<2xf32>`, 2 is the number of elements. Parameter and gradient, and
    states and values of that shape, have the shape of the parameter. States of other shapes
    are results of `prepare`, and `update` does not take them. A `prepare` may call other
    functions.

    `@<name>.prepare.<form>` replaces `prepare` for parameters of that form: `embedding`,
    `scale`, `shift`, `vector` (the last two) or `tall` (a matrix with more rows than
    columns). A user may select any other form by name. A further suffix `.shrink`, also
    `@<name>.update.shrink`, replaces a function in runs that do not skip non-finite
    gradients but have the rule handle them (`on-nonfinite=shrink`).

    `kinds` lists the kinds of parameters that the rule is for, all by default. Other
    parameters are updated by `others`, a rule of the library, whose hyper-parameters take
    the values of those of the same names here. `variants` are named sets of other defaults:
    `variants = {cv = {beta = 0.945}}`.

    A rule may compute gradients at other weights than those that it trains: then it has a
    state `evaluation_offset`, and evaluation and export use the sum of the parameter and
    this state. The state has the shape of the parameter and is never quantized.

    Example: gradient descent with momentum.

    ```mlir
    binade.optimizer @momentum {
      states = [#binade.setting<"m" = 0.0>],
      hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>,
                #binade.setting<"beta" = 0.9 min 0.0 below 1.0>]}
    func.func private @momentum.scalars(%step: i64, %lr: f64, %beta: f64) -> (f64, f64) {
      return %lr, %beta : f64, f64
    }
    func.func private @momentum.update(%p: f32, %g: f32, %m: f32, %lr: f32, %beta: f32)
        -> (f32, f32) {
      %decayed = arith.mulf %beta, %m : f32
      %m_new = arith.addf %decayed, %g : f32
      %change = arith.mulf %lr, %m_new : f32
      %p_new = arith.subf %p, %change : f32
      return %p_new, %m_new : f32, f32
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       ArrayAttr:$states, ArrayAttr:$hypers,
                       OptionalAttr<ArrayAttr>:$kinds,
                       OptionalAttr<StrAttr>:$others,
                       OptionalAttr<DictionaryAttr>:$variants);
  let assemblyFormat = "$sym_name attr-dict";
  let hasVerifier = 1;
}

// An op that applies a function of the optimizer rule.
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
  let summary = "scalars of an optimizer rule for one step";
  let description = [{
    Applies `@<optimizer>.scalars` to the number of this step, which is `step`, the number
    of applied updates, plus 1, and to the hyper-parameters. The function computes in f64;
    each result is rounded to f32 once.

    Example:

    ```mlir
    binade.optimizer @descent {states = [], hypers = [#binade.setting<"lr" = 0.5>]}
    func.func private @descent.scalars(%step: i64, %lr: f64) -> f64 {
      return %lr : f64
    }
    func.func private @descent.update(%p: f32, %g: f32, %lr: f32) -> f32 {
      %change = arith.mulf %lr, %g : f32
      %q = arith.subf %p, %change : f32
      return %q : f32
    }
    func.func @step(%step: tensor<i64>, %lr: tensor<f64>) -> tensor<f32> {
      %0 = binade.optimizer_scalars @descent(%step, %lr)
          : (tensor<i64>, tensor<f64>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    ```
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
  let extraClassDeclaration = "bool sumsElements() { return true; }";
  let summary = "sum of squares and overflow check of all gradients";
  let description = [{
    One pass over all gradients. `squares` is the sum of the squares of all elements, in f64
    and in a fixed order. `found_inf` is true if any element is NaN or infinite. Without
    elements they are 0 and false. The op has no gradient.

    Example:

    ```mlir
    %squares, %found_inf = binade.gradient_statistics %g, %h
       : (tensor<8x64xf32>, tensor<64xbf16>) -> (tensor<f64>, tensor<i1>)
    ```
  }];
  let arguments = (ins Variadic<NarrowFloatTensor>:$gradients);
  let results = (outs F64Scalar:$squares, BoolScalar:$found_inf);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Binade_OptimizerUpdateOp : Binade_Op<"optimizer_update", [
    Pure, NotDifferentiable, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "decompose",
                               "buildWithoutElements"]>]> {
  let summary = "update of one parameter and its optimizer states";
  let description = [{
    Multiplies the gradient by `factors`, one after the other (unscaling, clipping), and
    applies `@<optimizer>.update` to every element. Where `skip` is true, parameter and
    states keep their bits.

    The formula computes in f32. Let `p` be the parameter before and `q` the parameter that
    the formula returns. `master` says how `q` is stored, and what is stored in addition so
    that updates smaller than the spacing of the parameter's format are not lost:

    | `master` | `p` is | the last state | the parameter becomes |
    |---|---|---|---|
    | `none` | the parameter | | `q`, rounded to nearest even |
    | `f32` | the last state | f32 master weight: `q` | `q`, rounded to nearest even |
    | `split_round` | both joined | i16: the low half of `q` | the upper half of `q`, plus one if the low half is negative |
    | `split_trunc` | both joined | i16: the low half of `q` | the upper half of `q` |
    | `split_8bit` | both joined | i8: the code of `q - w`, see `join_halves` | `w`: `q`, rounded to nearest even |
    | `stochastic` | the parameter | | `q`, with stochastic rounding |
    | `kahan` | the parameter | compensation `c = (w - parameter) - y` | `w = parameter + y`, `y = (q - p) - c` |
    | `residual` | the parameter | residual `r' = s - (w - u)` | `w = u + s`, see below |

    The differences and sums of `kahan` are computed in f32 and, except for `q - p`, rounded
    to the format of the parameter, which is also that of `c`. With `residual`, the value of
    the parameter is its sum with the residual `r`. Each operation is computed in f32 and
    then rounded to the format of the parameter: the change is `a = q - p`, its sum `u = p +
    a` has the rounding error `a - (u - p)` (Fast2Sum), and with `s = r + (a - (u - p))` the
    same is done for `u` and `s`. States are rounded to their format, to nearest even.

    Stochastic rounding is that of `#binade.quantized`. Each element has the four words that
    Philox4x32-10 draws from the counter (low and high word of the index, stream, step) with
    `random` = (seed, step + 2^32 stream). The first word is for the parameter, the next
    ones are for the states in order; the upper 24 bits count. A formula that draws random
    numbers gets the first word of stream + 2^30. An optional third value of `random` is
    added to the indices: for a shard, the index of its first element in the whole
    parameter.

    A state may be stored quantized: then `formats` has a `#binade.quantized` for it, and in
    place of the state the op takes and returns the quantized tensor, the scales and the
    other parts of the format (`QuantizedAttr::getParts`). A `#binade.stochastic` marks
    a state with stochastic rounding, a unit attribute for any other state. Quantized states
    are dequantized before the formula is applied, and its results are quantized, with
    saturation; the new parameter depends on the states before they are quantized.

    `storage` is the decision of the policy about these formats; types and `master` say
    whether it has been carried out. `prepare` names the rule's function of that kind until
    it has been applied: then the op includes both. `values` are the results of `prepare`
    that the formula takes.

    Constraints:

    - (C1) Parameter, gradient and states have one shape, or quantized states are the parts
      of a tensor of this shape. With `prepare`, states have the shape that it says.
    - (C2) States, scalars and values are as many as the rule says, with one more state
      where `master` needs one.
    - (C3) That state has the type above. It needs a parameter of 16 bits, and bf16 for
      `split_round`, `split_trunc` and `split_8bit`.
    - (C4) `random` has two or three elements if anything is rounded stochastically or the
      formula draws random numbers, otherwise none.
    - (C5) Quantized states are `per_group`, with a power of two from 16 to 16384.
    - (C6) Values are scalars or have the shape of the parameter. With `prepare` there are
      none.
    - (C7) States with stochastic rounding are among the first three.

    Example:

    ```mlir
    binade.optimizer @descent {states = [], hypers = []}
    func.func private @descent.scalars(%step: i64) {
      return
    }
    func.func private @descent.update(%p: f32, %g: f32) -> f32 {
      %q = arith.subf %p, %g : f32
      return %q : f32
    }
    func.func @step(%p: tensor<8xbf16>, %master: tensor<8xf32>, %g: tensor<8xf32>,
                    %factor: tensor<f32>, %found_inf: tensor<i1>)
        -> (tensor<8xbf16>, tensor<8xf32>) {
      %new:2 = binade.optimizer_update @descent %p, %g states(%master) factors(%factor)
          skip(%found_inf) {master = #binade.master<f32>}
          : (tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>)
            -> (tensor<8xbf16>, tensor<8xf32>)
      return %new#0, %new#1 : tensor<8xbf16>, tensor<8xf32>
    }
    ```
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
    /// The state that `master` stores in addition; null if there is none.
    Value getCompanion();
    /// The states of the rule, or their parts where they are quantized.
    OperandRange getRuleStates();
    /// Each state of the rule.
    SmallVector<KeptState> getKeptStates();
    /// Whether the parameter or a state has stochastic rounding.
    bool roundsRandomly();
    /// Whether a state has an element for each of the parameter.
    bool isElementwise(const KeptState &state);
  }];
  let hasVerifier = 1;
}

#endif // BINADE_IR_OPS_OPTIMIZER_TD
