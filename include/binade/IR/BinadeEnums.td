//===- BinadeEnums.td - closed sets of words ------------------------------===//

#ifndef BINADE_IR_BINADEENUMS_TD
#define BINADE_IR_BINADEENUMS_TD

include "mlir/IR/EnumAttr.td"
include "binade/IR/BinadeDialect.td"

class Binade_Enum<string name, string summary, list<I32EnumCase> cases>
    : I32Enum<name, summary, cases> {
  let cppNamespace = "::mlir::binade";
}

class Binade_EnumAttr<EnumInfo enum, string mnemonic>
    : EnumAttr<Binade_Dialect, enum, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

// The four classes of automatic mixed precision (AMP), and that of ops which a
// list of ops does not name.
def Binade_PrecisionClass : Binade_Enum<"PrecisionClass",
    "how an op tolerates a narrow compute format", [
      I32EnumCase<"Allow", 0, "allow">,       // fast and safe when narrow
      I32EnumCase<"Infer", 1, "infer">,       // narrow when its operands are
      I32EnumCase<"Clear", 2, "clear">,       // moves bits, does no arithmetic
      I32EnumCase<"Deny", 3, "deny">,         // must stay in f32
      I32EnumCase<"Unlisted", 4, "unlisted">, // stays in f32, and tells no other
    ]>;

// How classes of ops become formats.
def Binade_Propagation : Binade_Enum<"Propagation",
    "how ops follow the ops around them", [
      I32EnumCase<"Operands", 0, "operands">, // PyTorch's: as what they read
      I32EnumCase<"Painting", 1, "painting">, // Grappler's: as what they touch
    ]>;

// The remedy of T5 in f16: what overflows there stays finite.
def Binade_Clamp : Binade_Enum<"Clamp", "what becomes of infinities in a result", [
      // The largest finite numbers.
      I32EnumCase<"Infinities", 0, "infinities">,
      // Where there is any, no magnitude exceeds the largest finite one - 1000.
      I32EnumCase<"Tensor", 1, "tensor">,
    ]>;
def Binade_ClampAttr : Binade_EnumAttr<Binade_Clamp, "clamp">;

// What a precision decision says about one operand or result.
def Binade_FormatRole : Binade_Enum<"FormatRole",
    "which format of a decision an operand or result follows", [
      I32EnumCase<"Chosen", 0, "chosen">, // compute (operand), result (result)
      I32EnumCase<"Wide", 1, "wide">,     // always f32
      I32EnumCase<"Fixed", 2, "fixed">,   // not subject to decisions
    ]>;

def Binade_Phase : Binade_Enum<"Phase", "the part of a training step", [
      I32EnumCase<"Forward", 0, "forward">,
      I32EnumCase<"Backward", 1, "backward">,
      I32EnumCase<"Optimizer", 2, "optimizer">,
    ]>;
def Binade_PhaseAttr : Binade_EnumAttr<Binade_Phase, "phase">;

// What an op is to the model, in the words of somebody who reads the model.
def Binade_TensorRole : Binade_Enum<"TensorRole",
    "what kind of tensors an op reads or makes", [
      I32EnumCase<"Weight", 0, "weight">,
      I32EnumCase<"Bias", 1, "bias">,
      I32EnumCase<"Norm", 2, "norm">,
      I32EnumCase<"Embedding", 3, "embedding">,
      I32EnumCase<"Activation", 4, "activation">,
      I32EnumCase<"Gradient", 5, "gradient">,
      I32EnumCase<"State", 6, "state">,
      I32EnumCase<"Logits", 7, "logits">,
    ]>;

// What a parameter is to an optimizer.
def Binade_ParameterKind : Binade_Enum<"ParameterKind",
    "what optimizers tell parameters apart by", [
      I32EnumCase<"Matrix", 0, "matrix">,       // weights and all else of two axes
      I32EnumCase<"Embedding", 1, "embedding">, // whose rows are looked up
      I32EnumCase<"Scale", 2, "scale">,         // of one axis, starts from 1
      I32EnumCase<"Shift", 3, "shift">,         // of one axis, starts from 0
    ]>;
def Binade_ParameterKindAttr
    : Binade_EnumAttr<Binade_ParameterKind, "parameter_kind">;

def Binade_LayerPosition : Binade_Enum<"LayerPosition",
    "where a layer stands in the forward part", [
      I32EnumCase<"First", 0, "first">,
      I32EnumCase<"Last", 1, "last">,
    ]>;

// What remembers the part of an update that a parameter's format cannot hold.
def Binade_Master : Binade_Enum<"Master",
    "what keeps the updates that a parameter's format would lose", [
      I32EnumCase<"None", 0, "none">,              // nothing: rounds to nearest
      I32EnumCase<"F32", 1, "f32">,                // a copy in f32
      I32EnumCase<"SplitRound", 2, "split_round">, // low bits of a rounded f32
      I32EnumCase<"SplitTrunc", 3, "split_trunc">, // low bits of a cut f32
      I32EnumCase<"Stochastic", 4, "stochastic">,  // nothing: rounds by chance
      I32EnumCase<"Kahan", 5, "kahan">,            // what the last sum lost
    ]>;
def Binade_MasterAttr : Binade_EnumAttr<Binade_Master, "master">;

// Which elements of a quantized tensor share a scale.
def Binade_Granularity : Binade_Enum<"Granularity",
    "which elements of a quantized tensor share a scale", [
      I32EnumCase<"PerTensor", 0, "per_tensor">,
      I32EnumCase<"PerRow", 1, "per_row">,     // of the last axis
      I32EnumCase<"PerGroup", 2, "per_group">, // consecutive, row-major
      I32EnumCase<"PerBlock", 3, "per_block">, // of the last two axes
    ]>;

// How a scale follows from the largest magnitude A of the elements that share
// it, F being the largest number of the format.
def Binade_ScaleRule : Binade_Enum<"ScaleRule",
    "how a scale follows from the largest magnitude", [
      I32EnumCase<"Amax", 0, "amax">,                // A / F
      I32EnumCase<"AmaxOffset", 1, "amax_offset">,   // (A + 1e-10) / F, as COAT
      I32EnumCase<"Inverse", 2, "inverse">,          // 1 / (F / A)
      I32EnumCase<"InversePower", 3, "inverse_power">, // F / A cut to 2^n
      I32EnumCase<"Floor", 4, "floor">,              // A cut to 2^n, of OCP MX
      I32EnumCase<"RoundUp", 5, "round_up">,         // A / F up to 2^n
    ]>;

// What a function argument or result is. Arguments stand in this order.
def Binade_Role : Binade_Enum<"Role", "what a value of the step's interface is", [
      I32EnumCase<"Parameter", 0, "parameter">, // trained
      I32EnumCase<"Buffer", 1, "buffer">,       // of the forward part, or frozen
      I32EnumCase<"State", 2, "state">,         // of the optimizer
      I32EnumCase<"Scaler", 3, "scaler">,       // loss scale, growth counter
      I32EnumCase<"Rng", 4, "rng">,             // seed and counter of dropout
      I32EnumCase<"Step", 5, "step">,           // number of applied updates
      I32EnumCase<"Accumulator", 6, "accumulator">, // of gradients, 0 before
      I32EnumCase<"Batch", 7, "batch">,         // one batch of data
      I32EnumCase<"Hyper", 8, "hyper">,         // run-time scalars such as lr
      I32EnumCase<"Output", 9, "output">,       // a result of the graph
      I32EnumCase<"Gradient", 10, "gradient">,  // of the parameter of that name
      I32EnumCase<"Metric", 11, "metric">,      // loss, grad_norm, found_inf
      I32EnumCase<"Statistic", 12, "statistic">, // of a value of the step
    ]>;
def Binade_RoleAttr : Binade_EnumAttr<Binade_Role, "role">;

// What may be asked about the elements of a tensor. Magnitudes are compared as
// bits, so that no NaN is lost.
def Binade_Statistic : I32BitEnumAttr<"Statistic", "what is counted of a tensor", [
      I32BitEnumAttrCase<"Amax", 1, "amax">,         // largest magnitude
      I32BitEnumAttrCase<"Smallest", 2, "smallest">, // that is not 0
      I32BitEnumAttrCase<"Zeros", 4, "zeros">,
      I32BitEnumAttrCase<"NonFinite", 8, "nonfinite">,
      I32BitEnumAttrCase<"Exponents", 16, "exponents">, // histogram
    ]> {
  let cppNamespace = "::mlir::binade";
  let genSpecializedAttr = 0;
}
def Binade_StatisticAttr : Binade_EnumAttr<Binade_Statistic, "statistic">;

// What becomes of a value that the backward part reads.
def Binade_SavedChoice : Binade_Enum<"SavedChoice", "how a value gets to the backward part", [
      I32EnumCase<"Keep", 0, "keep">,           // as it is
      I32EnumCase<"Quantize", 1, "quantize">,   // as codes
      I32EnumCase<"Recompute", 2, "recompute">, // from what is kept
    ]>;

// The loop structure of a kernel, the same for every target.
def Binade_Schedule : Binade_Enum<"Schedule", "the loop structure of a kernel", [
      I32EnumCase<"Elementwise", 0, "elementwise">,
      I32EnumCase<"RowReduction", 1, "row_reduction">,       // over trailing axes
      I32EnumCase<"ColumnReduction", 2, "column_reduction">, // over leading axes
      I32EnumCase<"FullReduction", 3, "full_reduction">,
      I32EnumCase<"Permute", 4, "permute">,                  // strided copies
      I32EnumCase<"Gather", 5, "gather">,
      I32EnumCase<"Scatter", 6, "scatter">,
      I32EnumCase<"MultiTensor", 7, "multi_tensor">,
      I32EnumCase<"View", 8, "view">,                        // no bytes move
      I32EnumCase<"Scalars", 9, "scalars">,                  // f64, once a step
      I32EnumCase<"Library", 10, "library">,                 // plan record
      I32EnumCase<"Statistics", 11, "statistics">,           // counts, in memory
    ]>;
def Binade_ScheduleAttr : Binade_EnumAttr<Binade_Schedule, "schedule">;

def Binade_Comparison : Binade_Enum<"Comparison", "an ordered comparison", [
      I32EnumCase<"Equal", 0, "equal">,
      I32EnumCase<"Less", 1, "less">,
      I32EnumCase<"LessEqual", 2, "less_equal">,
      I32EnumCase<"Greater", 3, "greater">,
      I32EnumCase<"GreaterEqual", 4, "greater_equal">,
    ]>;
def Binade_ComparisonAttr : Binade_EnumAttr<Binade_Comparison, "comparison">;

def Binade_Approximation : Binade_Enum<"Approximation",
    "the formula of the Gaussian error linear unit", [
      I32EnumCase<"None", 0, "none">, // by erf
      I32EnumCase<"Tanh", 1, "tanh">,
    ]>;
def Binade_ApproximationAttr
    : Binade_EnumAttr<Binade_Approximation, "approximation">;

#endif // BINADE_IR_BINADEENUMS_TD
