//===- BinadeEnums.td - enumerations --------------------------------------===//

#ifndef BINADE_IR_BINADEENUMS_TD
#define BINADE_IR_BINADEENUMS_TD

include "mlir/IR/EnumAttr.td"
include "binade/IR/BinadeDialect.td"

class Binade_Enum<string name, string summary, list<I32EnumCase> cases>
    : I32Enum<name, summary, cases> {
  let cppNamespace = "::mlir::binade";
}

// `value` is the value of the example.
class Binade_EnumAttr<EnumInfo enum, string mnemonic, string value>
    : EnumAttr<Binade_Dialect, enum, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
  let description = [{
    Example:

    ```mlir
    #binade.}] # mnemonic # "<" # value # [{>
    ```
  }];
}

// The four classes of automatic mixed precision (AMP), and a class for ops that
// the policy's list of ops does not name.
def Binade_PrecisionClass : Binade_Enum<"PrecisionClass",
    "precision class of an op", [
      I32EnumCase<"Allow", 0, "allow">,       // fast and safe in a narrow format
      I32EnumCase<"Infer", 1, "infer">,       // narrow if its operands are
      I32EnumCase<"Clear", 2, "clear">,       // moves or compares, does not round
      I32EnumCase<"Deny", 3, "deny">,         // must stay in f32
      I32EnumCase<"Unlisted", 4, "unlisted">, // stays in f32, affects no other op
    ]>;

// How classes of ops become formats.
def Binade_Propagation : Binade_Enum<"Propagation",
    "rule by which formats propagate to other ops", [
      I32EnumCase<"Operands", 0, "operands">, // by the operands, as in PyTorch
      I32EnumCase<"Painting", 1, "painting">, // by all neighbours, as in Grappler
    ]>;

// How T5 is trained in f16: overflow stays finite.
def Binade_Clamp : Binade_Enum<"Clamp",
    "clamp of infinities in a result", [
      // Infinities become the largest finite values.
      I32EnumCase<"Infinities", 0, "infinities">,
      // If there is one, all elements are clamped to the largest finite value - 1000.
      I32EnumCase<"Tensor", 1, "tensor">,
    ]>;
def Binade_ClampAttr : Binade_EnumAttr<Binade_Clamp, "clamp", "infinities">;

// The signs by which elements are multiplied before a Hadamard transform.
def Binade_HadamardSigns : Binade_Enum<"HadamardSigns",
    "signs of a Hadamard transform", [
      I32EnumCase<"None", 0, "none">,
      I32EnumCase<"Fixed", 1, "fixed">, // one vector, the same in all steps
      I32EnumCase<"Step", 2, "step">,   // drawn in each step
    ]>;

def Binade_FormatRole : Binade_Enum<"FormatRole",
    "format of a decision that an operand or result follows", [
      I32EnumCase<"Chosen", 0, "chosen">, // compute (operand), result (result)
      I32EnumCase<"Wide", 1, "wide">,     // always f32
      I32EnumCase<"Fixed", 2, "fixed">,   // not subject to decisions
    ]>;

def Binade_Phase : Binade_Enum<"Phase",
    "phase of a training step", [
      I32EnumCase<"Forward", 0, "forward">,
      I32EnumCase<"Backward", 1, "backward">,
      I32EnumCase<"Optimizer", 2, "optimizer">,
    ]>;
def Binade_PhaseAttr : Binade_EnumAttr<Binade_Phase, "phase", "backward">;

// Policies select operands and results by these roles.
def Binade_TensorRole : Binade_Enum<"TensorRole",
    "role of an operand or result in the model", [
      I32EnumCase<"Weight", 0, "weight">,
      I32EnumCase<"Bias", 1, "bias">,
      I32EnumCase<"Norm", 2, "norm">,
      I32EnumCase<"Embedding", 3, "embedding">,
      I32EnumCase<"Activation", 4, "activation">,
      I32EnumCase<"Gradient", 5, "gradient">,
      I32EnumCase<"State", 6, "state">,
      I32EnumCase<"Logits", 7, "logits">,
    ]>;

// Optimizers such as Muon treat parameters by their kind.
def Binade_ParameterKind : Binade_Enum<"ParameterKind",
    "kind of a parameter", [
      I32EnumCase<"Matrix", 0, "matrix">,       // two or more axes longer than 1
      I32EnumCase<"Embedding", 1, "embedding">, // rows are looked up
      I32EnumCase<"Scale", 2, "scale">,         // multiplies element by element
      I32EnumCase<"Shift", 3, "shift">,         // any other vector or scalar
    ]>;
def Binade_ParameterKindAttr
    : Binade_EnumAttr<Binade_ParameterKind, "parameter_kind", "matrix">;

def Binade_LayerPosition : Binade_Enum<"LayerPosition",
    "position of a layer in the forward pass", [
      I32EnumCase<"First", 0, "first">,
      I32EnumCase<"Last", 1, "last">,
    ]>;

// See `optimizer_update` for the formulas.
def Binade_Master : Binade_Enum<"Master",
    "method that preserves small updates of a parameter in a narrow format", [
      I32EnumCase<"None", 0, "none">,              // none: rounds to nearest even
      I32EnumCase<"F32", 1, "f32">,                // f32 master weight
      I32EnumCase<"SplitRound", 2, "split_round">, // low half of an f32, rounded
      I32EnumCase<"SplitTrunc", 3, "split_trunc">, // low half of an f32, truncated
      I32EnumCase<"Stochastic", 4, "stochastic">,  // none: stochastic rounding
      I32EnumCase<"Kahan", 5, "kahan">,            // Kahan compensation
      I32EnumCase<"Split8Bit", 6, "split_8bit">,   // rounding error in 8 bits
      I32EnumCase<"Residual", 7, "residual">,      // sum of two narrow values
    ]>;
def Binade_MasterAttr : Binade_EnumAttr<Binade_Master, "master", "kahan">;

// What is applied to an element before it is rounded to an integer. See
// `#binade.companded`.
def Binade_Companding : Binade_Enum<"Companding",
    "function that compresses elements before they are rounded", [
      I32EnumCase<"Softsign", 0, "softsign">,          // 2x / (1 + |x|), signed
      I32EnumCase<"Sqrt", 1, "sqrt">,                  // sqrt(x), unsigned
      I32EnumCase<"SqrtSoftsign", 2, "sqrt_softsign">, // both, unsigned
    ]>;

// Which elements of a quantized tensor share a scale.
def Binade_Granularity : Binade_Enum<"Granularity",
    "granularity of quantization scales", [
      I32EnumCase<"PerTensor", 0, "per_tensor">,
      I32EnumCase<"PerRow", 1, "per_row">,     // of the last axis
      I32EnumCase<"PerGroup", 2, "per_group">, // consecutive, row-major
      I32EnumCase<"PerBlock", 3, "per_block">, // of the last two axes
    ]>;

// A is the largest magnitude of the elements that share a scale, F the largest
// value of the format. See `#binade.quantized`.
def Binade_ScaleRule : Binade_Enum<"ScaleRule",
    "rule that derives a scale from the largest magnitude", [
      I32EnumCase<"Amax", 0, "amax">,                // A / F
      I32EnumCase<"AmaxOffset", 1, "amax_offset">,   // (A + 1e-10) / F, as COAT
      I32EnumCase<"Inverse", 2, "inverse">,          // 1 / (F / A)
      I32EnumCase<"InversePower", 3, "inverse_power">, // F / A rounded down to 2^n
      I32EnumCase<"Floor", 4, "floor">,              // A rounded down to 2^n, as OCP MX
      I32EnumCase<"RoundUp", 5, "round_up">,         // A / F rounded up to 2^n
      I32EnumCase<"RoundedInverse", 6, "rounded_inverse">, // A / F rounded to E4M3
      I32EnumCase<"RoundedHeadroom", 7, "rounded_headroom">, // A (17/16) / F rounded to E4M3
      I32EnumCase<"RoundedFourSix", 8, "rounded_four_six">, // the better of A / 6 and A / 4
      I32EnumCase<"RoundedEden", 9, "rounded_eden">, // A / F rounded to E4M3, then corrected
    ]>;

// Arguments of a program are in this order.
def Binade_Role : Binade_Enum<"Role",
    "role of an argument or result of a program", [
      I32EnumCase<"Parameter", 0, "parameter">, // trained
      I32EnumCase<"Buffer", 1, "buffer">,       // running statistics, or frozen
      I32EnumCase<"State", 2, "state">,         // of the optimizer
      I32EnumCase<"Scaler", 3, "scaler">,       // loss scale, growth counter
      I32EnumCase<"Rng", 4, "rng">,             // seed and counter of dropout
      I32EnumCase<"Step", 5, "step">,           // number of applied updates
      I32EnumCase<"Accumulator", 6, "accumulator">, // sum of gradients
      I32EnumCase<"Batch", 7, "batch">,         // one batch of data
      I32EnumCase<"Hyper", 8, "hyper">,         // run-time scalars such as lr
      I32EnumCase<"Output", 9, "output">,       // a result of the graph
      I32EnumCase<"Gradient", 10, "gradient">,  // of the parameter of the same name
      I32EnumCase<"Metric", 11, "metric">,      // loss, grad_norm, found_inf
      I32EnumCase<"Statistic", 12, "statistic">, // see `binade.statistics`
    ]>;
def Binade_RoleAttr : Binade_EnumAttr<Binade_Role, "role", "parameter">;

// Magnitudes are compared as bits, so that no NaN is lost.
def Binade_Statistic : I32BitEnumAttr<"Statistic",
    "statistic of the elements of a tensor", [
      I32BitEnumAttrCase<"Amax", 1, "amax">,         // largest magnitude
      I32BitEnumAttrCase<"Smallest", 2, "smallest">, // smallest that is not 0
      I32BitEnumAttrCase<"Zeros", 4, "zeros">,
      I32BitEnumAttrCase<"NonFinite", 8, "nonfinite">,
      I32BitEnumAttrCase<"Exponents", 16, "exponents">, // histogram
    ]> {
  let cppNamespace = "::mlir::binade";
  let genSpecializedAttr = 0;
}
def Binade_StatisticAttr : Binade_EnumAttr<Binade_Statistic, "statistic", "amax|zeros">;

def Binade_SavedChoice : Binade_Enum<"SavedChoice",
    "choice for a value that the backward pass reads", [
      I32EnumCase<"Keep", 0, "keep">,           // saved as it is
      I32EnumCase<"Quantize", 1, "quantize">,   // saved quantized
      I32EnumCase<"Recompute", 2, "recompute">, // recomputed from saved values
    ]>;

// The loop structure of a kernel, the same for every target.
def Binade_Schedule : Binade_Enum<"Schedule",
    "loop structure of a kernel", [
      I32EnumCase<"Elementwise", 0, "elementwise">,
      I32EnumCase<"RowReduction", 1, "row_reduction">,       // over the last axes
      I32EnumCase<"ColumnReduction", 2, "column_reduction">, // over other axes
      I32EnumCase<"FullReduction", 3, "full_reduction">,
      I32EnumCase<"Permute", 4, "permute">,                  // strided copies
      I32EnumCase<"Gather", 5, "gather">,
      I32EnumCase<"Scatter", 6, "scatter">,
      I32EnumCase<"MultiTensor", 7, "multi_tensor">,
      I32EnumCase<"View", 8, "view">,                        // no copy
      I32EnumCase<"Scalars", 9, "scalars">,                  // f64, once per step
      I32EnumCase<"Library", 10, "library">,                 // a record of the plan
      I32EnumCase<"Statistics", 11, "statistics">,           // counts and histograms
    ]>;
def Binade_ScheduleAttr : Binade_EnumAttr<Binade_Schedule, "schedule", "elementwise">;

def Binade_Comparison : Binade_Enum<"Comparison",
    "ordered comparison", [
      I32EnumCase<"Equal", 0, "equal">,
      I32EnumCase<"Less", 1, "less">,
      I32EnumCase<"LessEqual", 2, "less_equal">,
      I32EnumCase<"Greater", 3, "greater">,
      I32EnumCase<"GreaterEqual", 4, "greater_equal">,
    ]>;
def Binade_ComparisonAttr : Binade_EnumAttr<Binade_Comparison, "comparison", "less">;

def Binade_Approximation : Binade_Enum<"Approximation",
    "formula of the Gaussian error linear unit", [
      I32EnumCase<"None", 0, "none">, // exact, by erf
      I32EnumCase<"Tanh", 1, "tanh">, // approximation by tanh
    ]>;
def Binade_ApproximationAttr
    : Binade_EnumAttr<Binade_Approximation, "approximation", "tanh">;

#endif // BINADE_IR_BINADEENUMS_TD
