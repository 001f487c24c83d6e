//===- BinadeAttrs.td - attributes ----------------------------------------===//

#ifndef BINADE_IR_BINADEATTRS_TD
#define BINADE_IR_BINADEATTRS_TD

include "binade/IR/BinadeDialect.td"
include "binade/IR/BinadeEnums.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"

class Binade_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Binade_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Binade_PrecisionAttr : Binade_Attr<"Precision", "precision"> {
  let summary = "the formats an op computes, accumulates and answers in";
  let description = [{
    `compute` is the format that operands are rounded to, `accumulate` the
    format of partial sums (only on ops that sum products; never narrower than
    `compute`), `result` the format of the result. `rule` says which line of a
    policy, or which class, decided; a decision without a rule was written by a
    user: a pin, which wins over everything.

    `clamp` keeps results finite that have less range than f32: `infinities` become
    the largest finite numbers; with `tensor` nothing exceeds the largest finite number
    less 1000 where any element is infinite. Gradients pass as if nothing were clamped.

    `operands`, on ops that sum products and on `save`, has a `#binade.quantized` for
    each operand that is quantized first, and a unit for each other one. What is
    computed with, or read of what was saved, is then the number that code and scale
    stand for, not rounded to `compute`.

    `compute` may be tf32, which lies in memory as f32: then operands are rounded
    and change no type. The other two are formats of memory.

    Example:

    ```mlir
    #binade.precision<compute = bf16, accumulate = f32, result = bf16,
                      rule = "bf16-amp.yaml:7">
    ```
  }];
  let parameters = (ins "::mlir::FloatType":$compute,
                        OptionalParameter<"::mlir::FloatType">:$accumulate,
                        "::mlir::FloatType":$result,
                        OptionalParameter<"::mlir::ArrayAttr">:$operands,
                        OptionalParameter<"::mlir::binade::ClampAttr">:$clamp,
                        OptionalParameter<"::mlir::StringAttr">:$rule);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether a user wrote this decision.
    bool isPin() const { return !getRule(); }
    /// What operand `index` is quantized to; null where it is not.
    QuantizedAttr getOperand(unsigned index) const;
  }];
}

// Optional on every op that has it; the last argument of every builder.
def Binade_PrecisionArg
    : DefaultValuedOptionalAttr<Binade_PrecisionAttr,
                                "::mlir::binade::PrecisionAttr()"> {
  let constBuilderCall = "$0";
}

def Binade_CodeBookAttr : Binade_Attr<"CodeBook", "code_book"> {
  let summary = "the numbers that codes stand for, in a table";
  let description = [{
    Code i stands for `values[i]`. Values ascend; there are 256 of them, or 16. Of
    equal ones the last is used.

    A number becomes the code of the nearest value, half way between two the even
    one. Where the book has negative values, a number that is not zero keeps its
    sign: a tiny negative one does not become zero but the code below.

    Example:

    ```mlir
    #binade.code_book<"quarters", [-1.0, -7.5e-1, ...]>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name,
                        "::mlir::DenseF32ArrayAttr":$values);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether a value is negative.
    bool isSigned() const { return ArrayRef<float>(getValues()).front() < 0.0f; }
    /// The least f32 that becomes code `code`; minus infinity for code 0.
    float getThreshold(unsigned code) const;
  }];
}

def Binade_QuantizedAttr : Binade_Attr<"Quantized", "quantized"> {
  let summary = "a format of codes with shared scales";
  let description = [{
    `element` is a float format of at most 8 bits, f16, or a `#binade.code_book`. Elements
    share a scale

    - `per_tensor`: all;
    - `per_row`: those of a row, along the last axis;
    - `per_group<G>`: G consecutive ones in row-major order, the last fewer;
    - `per_block<M, N>`: M rows and N columns of the last two axes, fewer at the ends.

    An element is code times scale. Scales have format `scale`: f32, bf16, or
    f8E8M0FNU for powers of two. `rule` says how a scale S follows from A, the largest
    magnitude that shares it. F is the largest number of `element`. Arithmetic is f32;
    an operation rounds once.

    | `rule` | S | an element becomes the code of |
    |---|---|---|
    | `amax` | A / F, rounded to `scale` | x / S |
    | `amax_offset` | (A + 1e-10) / F | x / S, where S is not yet rounded to `scale` |
    | `inverse` | 1 / s with s = F / A | x s |
    | `inverse_power` | 1 / s with s = F / A, rounded down to a power of two | x s |
    | `floor` | 2^(exponent of A - exponent of F) | x / S |
    | `round_up` | A (1 / F), rounded up to a power of two | x / S |

    With `amax` S is not less than the least normal f32, and where A is 0 it is 1 / F,
    or the least normal f32 where no code stands for 0.
    `inverse` and `inverse_power` take 1 for s where A is 0, infinite or NaN, and the
    largest finite s. Powers of two of `floor` and `round_up` stay in 2^-127 to 2^127.
    A NaN never becomes a finite number: its code or its scale is NaN.

    With `expand` an element becomes the code of y / S with y = sign(x) (|x| / c)^k,
    and S follows from the largest y; c = sqrt(A) sqrt(a), where a is the least
    magnitude that is not 0. k makes use of the range of `element`:
    floor(16 log2(F T / 2) / log2(A / a)) / 16, at least 1 / 16, and 1 where A / a is
    at most 1 + 2^-12. T is F for floats without infinity, otherwise 1 / the least
    magnitude of `element`. c and k are kept in f32 beside S.

    With `stochastic` what is between two numbers of `element` becomes the one further
    from zero (in a code book the larger one) where a random number, uniform in [0, 1),
    is less than the fraction of the way that it has come there; otherwise the other one.
    So the mean is right, numbers of `element` stay, and so do infinities and NaN.

    With `history = N` A is the largest of the last N steps before, of which the step
    keeps account: a scale is known before its tensor is. With `margin = N` rules
    `inverse` and `inverse_power` take F / 2^N for F, which leaves room for what grows.

    Sources: `amax_offset` and `expand`: COAT (Xi et al., 2024); `inverse` and
    `inverse_power`: Transformer Engine; `floor` and `round_up`: OCP Microscaling 1.0
    and Transformer Engine. `docs/Quantization.md` says where they differ.

    Example: the format of COAT's optimizer states.

    ```mlir
    #binade.quantized<f8E4M3FN, per_group<128>, scale = f32, expand>
    ```
  }];
  let parameters = (ins "::mlir::Attribute":$element,
                        "::mlir::binade::Granularity":$granularity,
                        ArrayRefParameter<"int64_t">:$extent,
                        "::mlir::FloatType":$scale,
                        "::mlir::binade::ScaleRule":$rule, "bool":$expand,
                        "bool":$stochastic, "int64_t":$history,
                        "int64_t":$margin);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Null where elements are codes of a book.
    FloatType getFormat() const;
    CodeBookAttr getBook() const;
    /// What a code is: the float format if that has 8 bits, otherwise i8.
    Type getCodeType() const;
    /// Whether two codes lie in a byte, the first in its upper half.
    bool isPacked() const;
    /// The largest magnitude and the least that is not 0.
    double getLargest() const;
    double getLeast() const;
    /// What the largest magnitude that a scale follows from becomes.
    double getPeak() const;
    /// The scale of zeros by rule `amax`.
    float getScaleOfZeros() const;
    /// The same with another `stochastic`.
    QuantizedAttr withRounding(bool stochastic) const;
    /// The same with other groups that share a scale.
    QuantizedAttr withGroups(Granularity granularity,
                             ArrayRef<int64_t> extent) const;
    /// The same for what lies in columns of `rows` elements instead of rows.
    QuantizedAttr getTurned(int64_t rows) const;
    /// A scale, and with `expand` k and c.
    unsigned countFactors() const { return getExpand() ? 3 : 1; }
    /// The shape of scales of a tensor of `shape`.
    SmallVector<int64_t> getScaleShape(ArrayRef<int64_t> shape) const;
    /// What a tensor of `shape` is kept as: codes, scales, and with `expand` k and
    /// c. Two codes in a byte have rank 1.
    SmallVector<RankedTensorType> getParts(ArrayRef<int64_t> shape) const;
    /// Of all parts.
    uint64_t getBytes(ArrayRef<int64_t> shape) const;
  }];
}

def Binade_StochasticAttr : Binade_Attr<"Stochastic", "stochastic"> {
  let summary = "a float format to which numbers are rounded by chance";
  let description = [{
    What is between two numbers of `format` becomes the one further from zero with the
    probability that the other rounding errs by: its mean is right.

    Example:

    ```mlir
    #binade.stochastic<bf16>
    ```
  }];
  let parameters = (ins "::mlir::FloatType":$format);
  let assemblyFormat = "`<` $format `>`";
}

def Binade_MasterParameter : EnumParameter<Binade_Master> {
  let defaultValue = "::mlir::binade::Master::None";
}

def Binade_StorageAttr : Binade_Attr<"Storage", "storage"> {
  let summary = "the formats in which a parameter and its states are kept";
  let description = [{
    A decision about one `optimizer_update`. `parameter` is the format in which the
    parameter waits for its readers, `master` what keeps the updates that this
    format would lose, `states` the format of all states of the optimizer, or
    a list of the format of each, where `#binade.quantized` and `#binade.stochastic`
    may stand too,
    `accumulator` that of sums of gradients between batches; f32 where nothing is
    said. `rule` is as in `#binade.precision`.

    Formats are f32 and formats of 16 bits. `master` needs a parameter of 16 bits;
    `split_round` and `split_trunc` work on the upper half of an f32, which is bf16.

    Example:

    ```mlir
    #binade.storage<parameter = bf16, master = kahan, states = bf16,
                    rule = "mine.yaml:4">
    ```
  }];
  let parameters = (ins OptionalParameter<"::mlir::FloatType">:$parameter,
                        Binade_MasterParameter:$master,
                        OptionalParameter<"::mlir::Attribute">:$states,
                        OptionalParameter<"::mlir::FloatType">:$accumulator,
                        OptionalParameter<"::mlir::StringAttr">:$rule);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether a user wrote this decision.
    bool isPin() const { return !getRule(); }
    /// What is wrong with these formats, or an empty string.
    static std::string explainViolation(FloatType parameter, Master master,
                                        Attribute states,
                                        FloatType accumulator);
    /// What state `index` is kept in; null where nothing is said.
    Attribute getState(unsigned index) const;
    /// The float format of state `index`; null where nothing is said, or where it
    /// is quantized.
    FloatType getStateFormat(unsigned index) const;
    /// Null for a state that is a tensor.
    QuantizedAttr getQuantized(unsigned index) const;
  }];
}

def Binade_BesideAttr : Binade_Attr<"Beside", "beside"> {
  let summary = "the initial value of what is kept beside a parameter";
  let description = [{
    What `master` keeps when the parameter called `parameter` takes its initial
    value, an f32, in a format of 16 bits: the f32, or its low bits, or zeros.

    Example:

    ```mlir
    #binade.beside<"fc1.weight", split_round>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$parameter,
                        EnumParameter<Binade_Master>:$master);
  let assemblyFormat = "`<` $parameter `,` $master `>`";
}

def Binade_SavedAttr : Binade_Attr<"Saved", "saved"> {
  let summary = "how a value gets to the backward part";
  let description = [{
    A value of `type` that the op called `name` makes, and what a budget chose for it:
    to keep it, to keep its codes in `format`, or to make it again. The list of them
    stays on the module (`binade.saved`).
  }];
  let parameters = (ins EnumParameter<Binade_SavedChoice>:$choice,
                        "::mlir::StringAttr":$name, "::mlir::Type":$type,
                        OptionalParameter<"::mlir::binade::QuantizedAttr">:$format);
  let assemblyFormat = "`<` $choice `,` $name `,` $type (`,` $format^)? `>`";
  let extraClassDeclaration = [{
    /// Bytes that wait; those that would if it were kept as it is.
    uint64_t getBytes() const;
    uint64_t getBytesAsIs() const;
  }];
}

def Binade_PolicyAttr : Binade_Attr<"Policy", "policy"> {
  let summary = "the precision policy that a module was compiled with";
  let description = [{
    Stays on the module (`binade.policy`) from assignment on, so that IR and
    bundle name the policy. `text` is what its file says, `extends` the policy
    that it changes, `costs` the text of the costs that its cut minimizes, `hash`
    the SHA-256 of all these texts.
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::StringAttr":$hash,
                        "::mlir::StringAttr":$text,
                        OptionalParameter<"::mlir::StringAttr">:$costs,
                        OptionalParameter<"::mlir::binade::PolicyAttr">:$extends);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Binade_TargetAttr : Binade_Attr<"Target", "target"> {
  let summary = "how large pieces of work are on a target, and what it multiplies";
  let description = [{
    Stands on the module (`binade.target`) from the kernels phase on where the target is
    not a CPU. What is large and short-lived is made `piece` elements at a time. The
    target's library multiplies f32, f16 and bf16, adds a bias of the result's format,
    and multiplies codes of formats `codes`, of the first with any, where what is summed
    and the columns are multiples of `multiple`. With `block` it takes scales, in f32, for
    as many summands of a row of one side, and of a row or of as many rows of the other.
    In memory, rows of such scales are multiples of `multiple` bytes. Attention of formats
    `attention` is one kernel, where columns are multiples of 16 and at most `most`.

    Example:

    ```mlir
    #binade.target<"cuda:sm_90", piece = 16777216, codes = [f8E4M3FN, f8E5M2],
                   multiple = 16, block = 128, attention = [f16, bf16], most = 128>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$piece,
                        OptionalArrayRefParameter<"::mlir::FloatType">:$codes,
                        DefaultValuedParameter<"int64_t", "1">:$multiple,
                        DefaultValuedParameter<"int64_t", "0">:$block,
                        OptionalArrayRefParameter<"::mlir::FloatType">:$attention,
                        DefaultValuedParameter<"int64_t", "0">:$most);
  let assemblyFormat = [{
    `<` $name `,` `piece` `=` $piece
    `` custom<TargetProducts>($codes, $multiple, $block, $attention, $most) `>`
  }];
}

def Binade_ExternalAttr : Binade_Attr<"External", "external", [TypedAttrInterface]> {
  let summary = "tensor data in a file beside the module";
  let description = [{
    `file` is relative to the module's directory; `offset` and `bytes` bound
    the data; `sha256`, when present, is checked when the data are read.

    Example:

    ```mlir
    #binade.external<"weights.safetensors", 4096, 512> : tensor<128xf32>
    ```
  }];
  let parameters = (ins AttributeSelfTypeParameter<"">:$type,
                        "::mlir::StringAttr":$file, "uint64_t":$offset,
                        "uint64_t":$bytes,
                        OptionalParameter<"::mlir::StringAttr">:$sha256);
  let assemblyFormat =
      "`<` $file `,` $offset `,` $bytes (`,` $sha256^)? `>`";
  let genVerifyDecl = 1;
}

def Binade_RandomAttr : Binade_Attr<"Random", "random"> {
  let summary = "random initial values, drawn when training starts";
  let description = [{
    `distribution` is `normal` (mean `origin`, standard deviation `scale`) or
    `uniform` (in [origin, origin + scale)). The draw depends on the seed, the
    parameter's name and the element's index only.

    Example:

    ```mlir
    #binade.random<"normal", 0.0, 0.02>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$distribution,
                        "::mlir::FloatAttr":$origin, "::mlir::FloatAttr":$scale);
  let assemblyFormat = "`<` $distribution `,` $origin `,` $scale `>`";
  let genVerifyDecl = 1;
}

def Binade_SettingAttr : Binade_Attr<"Setting", "setting"> {
  let summary = "a named number with its default and the bounds of legal values";
  let description = [{
    Bounds are inclusive; `below` is the exclusive upper bound.

    Example:

    ```mlir
    #binade.setting<"beta1" = 0.9 min 0.0 below 1.0>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::FloatAttr":$value,
                        OptionalParameter<"::mlir::FloatAttr">:$min,
                        OptionalParameter<"::mlir::FloatAttr">:$max,
                        OptionalParameter<"::mlir::FloatAttr">:$below);
  let assemblyFormat = [{
    `<` $name `=` $value (`min` $min^)? (`max` $max^)? (`below` $below^)? `>`
  }];
  let extraClassDeclaration = [{
    /// The default.
    double getDefault() const { return getValue().getValueAsDouble(); }
    /// The legal values.
    ::binade::NumberRange getRange() const;
    /// What is wrong with `value`, or an empty string.
    std::string explainViolation(double value) const;
  }];
}

#endif // BINADE_IR_BINADEATTRS_TD
