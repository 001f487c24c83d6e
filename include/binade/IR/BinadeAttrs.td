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

def Binade_TransformAttr : Binade_Attr<"Transform", "transform"> {
  let summary = "a transform of the operands of a contraction";
  let description = [{
    Both operands of a contraction are transformed along the axis that is summed over, in
    groups of `hadamard` elements (4, 8, 16, 32, 64 or 128), with the same signs; see
    `binade.hadamard`. The matrix is orthonormal, so that the result of the contraction is
    the same up to rounding. With `signs = fixed`, element i of a group has the sign
    v[i mod 16] v[i / 16], where v is the vector of NVIDIA's recipe for NVFP4. With `step`,
    signs are drawn in each step, from the seed and the number of the step; with `none`,
    there are none.

    Example:

    ```mlir
    #binade.transform<hadamard = 16, signs = fixed>
    ```
  }];
  let parameters = (ins "int64_t":$hadamard,
                        EnumParameter<Binade_HadamardSigns>:$signs);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Binade_AccumulationAttr : Binade_Attr<"Accumulation", "accumulation"> {
  let summary = "a model of the accumulator of a matrix unit";
  let description = [{
    How a contraction of FP8 elements adds its products, instead of in f32. An instruction
    adds `step` consecutive products (1 to 32) to an accumulator with a significand of `bits`
    bits (8 to 24), which is 0 at first:

    1. The exponent of a product is the sum of the exponents of its factors; subnormal
       elements have the exponent of the smallest normal one. E is the largest exponent of the
       products and of the accumulator. Zeros have none.
    2. Products and accumulator are truncated (toward zero) to multiples of
       2^(E - bits + 1), and added exactly.
    3. The sum is truncated to `bits` significant bits, and is the new accumulator.

    After each `promote` products, a multiple of `step`, the accumulator is added to a sum in
    f32, rounded to nearest even, and becomes 0. With `promote = 0` this happens only after
    the last product. The last instruction may have fewer products. A product that is NaN,
    and infinite products of both signs, make the sum NaN; infinite products of one sign make
    it infinite.

    With 14 bits and steps of 32 this is how Hopper multiplies FP8 (wgmma): DeepSeek-V3
    (arXiv 2412.19437), section 3.5.2, and MMA-Sim (arXiv 2511.10909).

    Example:

    ```mlir
    #binade.accumulation<bits = 14, step = 32, promote = 128>
    ```
  }];
  let parameters = (ins "int64_t":$bits, "int64_t":$step, "int64_t":$promote);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static constexpr int64_t kMinBits = 8, kMaxBits = 24, kMaxStep = 32;
    /// An error message if these values are not valid, otherwise an empty
    /// string.
    static std::string explainViolation(int64_t bits, int64_t step,
                                        int64_t promote);
  }];
}

def Binade_PrecisionAttr : Binade_Attr<"Precision", "precision"> {
  let summary = "the formats in which an op computes, accumulates and returns";
  let description = [{
    A decision about one op. `compute` is the format to which operands are rounded, `result`
    the format of the result. `accumulate` is the format of partial sums: only on
    contractions, and never narrower than `compute`. `rule` is the line of the policy, or
    the class, that decided. A decision without a rule was written by a user; it takes
    precedence over every policy.

    `clamp` keeps the results of formats with a smaller range than f32 finite: with
    `infinities`, infinities become the largest finite values; with `tensor`, if any element
    is infinite, all elements are clamped to the largest finite value minus 1000. The
    gradient ignores the clamp.

    `operands`, on contractions and on `save`, has a `#binade.quantized` for each
    operand that is quantized first, and a unit attribute for each other one. The op then
    computes with the dequantized values, which are not rounded to `compute`. `transform`, on
    contractions with two quantized operands, transforms these before they are quantized.
    `accumulation`, on matmuls of two operands that are quantized to FP8, adds the products as
    the accumulator of a matrix unit does (`#binade.accumulation`); `accumulate` is then f32.

    `compute` is f32, tf32, bf16 or f16. tf32 is stored as f32: then operands are rounded
    and keep their type. `accumulate` is f64, f32, bf16 or f16, and `result` f32, bf16 or
    f16; on `save` it may have 8 bits. A matmul that the model computes in f64 has f64 in
    all three.

    Example:

    ```mlir
    #binade.precision<compute = bf16, accumulate = f32, result = bf16, rule = "bf16-amp.yaml:7">
    ```
  }];
  let parameters = (ins "::mlir::FloatType":$compute,
                        OptionalParameter<"::mlir::FloatType">:$accumulate,
                        "::mlir::FloatType":$result,
                        OptionalParameter<"::mlir::ArrayAttr">:$operands,
                        OptionalParameter<"::mlir::binade::TransformAttr">:$transform,
                        OptionalParameter<"::mlir::binade::AccumulationAttr">:$accumulation,
                        OptionalParameter<"::mlir::binade::ClampAttr">:$clamp,
                        OptionalParameter<"::mlir::StringAttr">:$rule);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether a user wrote this decision.
    bool isPin() const { return !getRule(); }
    /// The format to which operand `index` is quantized; null if it is not.
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
  let summary = "an element format that is a table of values";
  let description = [{
    Code i represents `values[i]`. There are 256 or 16 values, in ascending order. Of equal
    values the last one is used.

    An element becomes the code of the nearest value; halfway between two values, the even
    code. If the book has negative values, an element other than 0 keeps its sign: a tiny
    negative element becomes the largest negative value, not 0.

    Example:

    ```mlir
    #binade.code_book<"eighths", [-1.0, -0.875, -0.75, -0.625, -0.5, -0.375, -0.25, -0.125,
                                  0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0]>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name,
                        "::mlir::DenseF32ArrayAttr":$values);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether the book has negative values.
    bool isSigned() const { return ArrayRef<float>(getValues()).front() < 0.0f; }
    /// The smallest f32 that becomes code `code`; minus infinity for code 0.
    float getThreshold(unsigned code) const;
  }];
}

def Binade_CompandingParameter : EnumParameter<Binade_Companding>;

def Binade_CompandedAttr : Binade_Attr<"Companded", "companded"> {
  let summary = "an element format of integers of 8 bits, spaced by a function";
  let description = [{
    An element x becomes an integer q, and q represents an element again. Values near 0 are
    more densely spaced than others. S is the scale of the element, and D the scale before
    it is rounded to its format. Each operation rounds to f32 once.

    | `function` | q | t | element |
    |---|---|---|---|
    | `softsign` | floor(127 (2u / (1 + abs(u))) + 0.5), u = x / D | q / 127 | (t / (2 - abs(t))) S |
    | `sqrt` | floor(255 u + 0.5), u = sqrt(x) / D | q / 255 | (t S)^2 |
    | `sqrt_softsign` | floor(255 (2u / (1 + u)) + 0.5), u = sqrt(x) / D | q / 255 | ((t / (2 - t)) S)^2 |

    Here u is the scaled element and t is q in [-1, 1]. The scale has rule `amax`, with F = 1:
    it is the largest magnitude of the elements, or of their square roots for `sqrt` and
    `sqrt_softsign`. D is limited to the range of `scale` as S is. q is at most 127 or 255, and
    is stored as i8; it is 0 where u is NaN. The root of a negative element is NaN. A NaN or an
    infinity makes the scale NaN, and with it every element of the group.

    Source: FlashOptim (arXiv 2602.23349). Where the largest magnitude is in [2^-24, 65504],
    integers and scales are the same. FlashOptim's scale is 0 up to 2^-25, and infinite from
    65520 on.

    Example:

    ```mlir
    #binade.companded<softsign>
    ```
  }];
  let parameters = (ins Binade_CompandingParameter:$function);
  let assemblyFormat = "`<` $function `>`";
  let extraClassDeclaration = [{
    /// Whether elements may be negative.
    bool isSigned() const { return getFunction() == Companding::Softsign; }
    /// Whether the square roots of elements are stored.
    bool takesRoots() const { return !isSigned(); }
    bool hasSoftsign() const { return getFunction() != Companding::Sqrt; }
    /// The largest integer.
    int64_t getLargestCode() const { return isSigned() ? 127 : 255; }
  }];
}

def Binade_QuantizedAttr : Binade_Attr<"Quantized", "quantized"> {
  let summary = "a quantized format: elements with shared scales";
  let description = [{
    `element` is a float format of at most 8 bits, f16, a `#binade.code_book`, or
    `#binade.companded`. An element represents its value times the scale; for
    `#binade.companded`, see there. A scale is shared by

    - `per_tensor`: all elements;
    - `per_row`: the elements of a row, along the last axis;
    - `per_group<G>`: G consecutive elements in row-major order; G need not divide the
      number of elements, and the last group has the remainder: groups of 128 cut 300
      elements into 128, 128 and 44, and 100 elements are one group;
    - `per_block<M, N>`: M rows and N columns of the last two axes; blocks at the ends may
      have fewer.

    Scales have the format `scale`: f32, bf16, f16, f8E8M0FNU for powers of two, or f8E4M3FN.
    `rule` defines how a scale S follows from A, the largest magnitude (absmax) of the
    elements that share it. F is the largest value of `element`. Arithmetic is f32, and each
    operation rounds once.

    | `rule` | S | the value that is rounded to `element` |
    |---|---|---|
    | `amax` | A / F, rounded to `scale` | x / S |
    | `amax_offset` | (A + 1e-10) / F | x / S, where S is not yet rounded to `scale` |
    | `inverse` | 1 / s with s = F / A | x s |
    | `inverse_power` | 1 / s with s = F / A, rounded down to a power of two | x s |
    | `floor` | 2^(exponent of A - exponent of F) | x / S |
    | `round_up` | A (1 / F), rounded up to a power of two | x / S |
    | `rounded_inverse` | A (1 / F), rounded to `scale`, saturating | x (1 / S), where 1 / S is at most the largest f32 |
    | `rounded_headroom` | A (1 / P) with P = F (16 / 17), rounded to `scale`, saturating | as with `rounded_inverse` |
    | `rounded_four_six` | one of S6 and S4, see below | as with `rounded_inverse` |
    | `rounded_eden` | S c, rounded stochastically, see below | as with `rounded_inverse` |

    With `amax`, S is at least the smallest normal f32. If A is 0, it is 1 / F, or the
    smallest normal f32 if no element represents 0. Scales in f16 follow `amax`; S is then
    at least 2^-24, the smallest f16, and at most 65504, the largest, unless A is infinite or
    NaN. Larger elements saturate. `inverse` and `inverse_power` use s = 1
    if A is 0, infinite or NaN, and the largest finite s at most. The powers of two of
    `floor` and `round_up` stay in [2^-127, 2^127]. A NaN never becomes a finite value: the
    element or its scale is NaN. The rules whose names begin with `rounded` are those of scales in
    f8E4M3FN, and of no others. If S is 0, all elements represent 0. With
    `rounded_headroom` no element exceeds F, unless S is subnormal: rounding a scale to E4M3
    reduces it by at most a factor of 16 / 17. So `stochastic` is unbiased.

    With `tensor_scale = f32`, blocks have a second scale above them: an element represents
    its value times the scale of its block times T, the scale of the tensor. T = 1 / s with
    s = F G / A, where A is the absmax of the tensor and G the largest value of `scale`, or
    1 for f8E8M0FNU. s is at most the largest f32, and 1 if A is 0 or infinite; a NaN in the
    tensor makes T and all S NaN. Scales of blocks follow from A s in place of A, in
    `rounded_inverse` as A (s (1 / F)), in `rounded_headroom`, where P replaces F here, too, as
    A (s (1 / P)), and an element is x (1 / (S T)), where 1 / (S T) is
    at most the largest f32. `scale` is f8E4M3FN or f8E8M0FNU.

    `rounded_four_six` maps the absmax of a block to 6 or to 4, whichever has the smaller error
    ("4/6"): between 4 and 6 E2M1 has no value. `element` is f4E2M1FN, `tensor_scale` is f32
    with G = 256, so that 1.5 times a scale does not saturate, and blocks are at most 16 x 16.
    With a, the absmax of the block,

    ```text
    S6 = (a / 6) s                rounded to f8E4M3FN, saturating
    S4 = ((a / 6) s) 1.5          rounded to f8E4M3FN, saturating
    E  = sum over the block of (((q S) A) / 1536 - x)^2
    ```

    where q is the value of `element` that x becomes with that scale. S is S4 if its E is
    smaller than that of S6, and otherwise S6, also if an E is NaN. Each operation of E is
    rounded to f32. The squares of a row of a block are added from left to right; then row i +
    8 is added to row i, for i < 8, and the same with 4, 2 and 1. A block of one column is
    added from top to bottom. `stochastic` is not available: E is that of rounding to nearest.

    `rounded_eden` ("MS-EDEN") rounds elements to nearest, and corrects the scales afterwards so
    that the expectation is the value itself, if the tensor was rotated at random before
    (`hadamard`, with signs that are drawn). `element` is f4E2M1FN, `tensor_scale` is f32 with
    G = 255.99, and blocks are one row or one column of at most 16 elements. S and elements
    follow as with `rounded_headroom`, where P = F / ((17 / 16) 0.93), so that the largest
    magnitude of a block may exceed F and saturate. 8 consecutive blocks along the row, or the
    column, have the same correction c; the last ones may be fewer. Then

    ```text
    u  = x s                      p = q S
    c  = (sum of u u) / (sum of u p)       over the elements of the 8 blocks
    S' = S c                      rounded to f8E4M3FN stochastically, at most 448
    ```

    where q is the value of `element` that x becomes, and S' replaces S as the stored scale.
    c is 1 if the quotient is infinite or NaN: if all elements represent 0, for example, or if
    one is infinite. Each operation is rounded to f32. The products of a block are added in
    order; then the sum of block i + 4 is added to that of block i, for i < 4, and the same
    with 2 and 1. c is at most 1.5 unless scales are subnormal, so that S', unlike S, does not
    need G = 448. An S of NaN or 0 stays. The random number of a scale is that of its row-major
    index among the scales. `stochastic` is not available: the elements are rounded to nearest.

    With `expand`, y = sign(x) (|x| / c)^k is quantized in place of x, and S follows from
    the largest y. c = sqrt(A) sqrt(a), where a is the smallest magnitude that is not 0. k
    makes use of the range of `element`: k = floor(16 log2(F T / 2) / log2(A / a)) / 16, at
    least 1 / 16, and 1 if A / a is at most 1 + 2^-12. T is F for floats without infinity,
    and otherwise the reciprocal of the smallest magnitude of `element`. c and k are stored
    in f32 next to S.

    With `stochastic`, a value between two neighbouring values of `element` becomes the one
    farther from zero (in a code book, the larger one) if a random number, uniform in
    [0, 1), is less than the fraction of the distance from the other one, and otherwise the
    other one. So the expectation is the value itself. Values of `element`, infinities and
    NaN are not changed.

    With `history = N`, A is the largest absmax of the previous N steps, which the step
    stores (`binade-use-delayed-scaling`), so that a scale is known before its tensor. With
    `margin = N`, the rules `inverse` and `inverse_power` use F / 2^N in place of F, which
    leaves room for growth.

    Sources: `amax_offset` and `expand`: COAT (Xi et al., 2024); `inverse`, `inverse_power`,
    `rounded_inverse` and `tensor_scale`: Transformer Engine; `rounded_headroom` and
    `rounded_eden`: Quartet II (arXiv 2601.22813); `rounded_four_six`: Four Over Six (arXiv 2512.02010), in the order of
    Transformer Engine's reference with squared errors; `floor` and `round_up`: OCP Microscaling 1.0 and Transformer Engine.
    `docs/Quantization.md` describes where they differ.

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
                        "int64_t":$margin,
                        OptionalParameter<"::mlir::FloatType">:$tensorScale);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The float format of the elements; null for other elements.
    FloatType getFormat() const;
    /// The code book of the elements; null for other elements.
    CodeBookAttr getBook() const;
    /// The function that spaces the elements; null for other elements.
    CompandedAttr getCompanded() const;
    /// Whether scales are those of the square roots of elements.
    bool takesRoots() const {
      CompandedAttr companded = getCompanded();
      return companded && companded.takesRoots();
    }
    /// The element type of the quantized tensor: the float format if that has 8
    /// bits, otherwise i8.
    Type getCodeType() const;
    /// Whether two elements share a byte, the first in its upper half.
    bool isPacked() const;
    /// The largest magnitude of the element format.
    double getLargest() const;
    /// The smallest magnitude of the element format that is not 0.
    double getLeast() const;
    /// The value to which the scale maps the absmax.
    double getPeak() const;
    /// The value to which the scale of the tensor maps the absmax of the tensor.
    double getTensorPeak() const;
    /// Whether the rule rounds scales to f8E4M3FN.
    bool roundsScales() const {
      return getRule() == ScaleRule::RoundedInverse ||
             getRule() == ScaleRule::RoundedHeadroom || comparesScales() ||
             correctsScales();
    }
    /// The factors of the scales that are compared: one maps the largest
    /// magnitude of a block to 6, the other one to 4.
    static constexpr std::array<double, 2> kStretches = {1.0, 1.5};
    /// Whether the scale of a block is the better of two.
    bool comparesScales() const {
      return getRule() == ScaleRule::RoundedFourSix;
    }
    /// The number of consecutive blocks whose scales have the same correction.
    static constexpr int64_t kCorrectedBlocks = 8;
    /// Whether scales are corrected after elements are rounded, and then rounded
    /// stochastically.
    bool correctsScales() const {
      return getRule() == ScaleRule::RoundedEden;
    }
    /// The number of consecutive elements with the same correction.
    int64_t getCorrectedSize() const {
      return kCorrectedBlocks * getExtent()[0] * getExtent()[1];
    }
    /// Whether quantizing draws random numbers: for each element, or for each
    /// scale.
    bool draws() const { return getStochastic() || correctsScales(); }
    /// Whether scales are in f8E4M3FN, or below the scale of the tensor.
    bool hasBlockScales() const { return getTensorScale() || roundsScales(); }
    /// Whether elements are multiplied by a factor when they are quantized,
    /// instead of divided by it.
    bool multiplies() const;
    /// The scale by rule `amax` if all elements are 0.
    float getScaleOfZeros() const;
    /// The same format with another `stochastic`.
    QuantizedAttr withRounding(bool stochastic) const;
    /// The same format with another granularity.
    QuantizedAttr withGroups(Granularity granularity,
                             ArrayRef<int64_t> extent) const;
    /// The same format without the scale of the tensor.
    QuantizedAttr withoutTensorScale() const;
    /// The format of elements by a scale that is known, as one of two or before
    /// its correction: with rule `rounded_inverse`, without the scale of the tensor.
    QuantizedAttr withChosenScale() const;
    /// The same format for the transposed tensor, whose columns have `rows`
    /// elements.
    QuantizedAttr getTransposed(int64_t rows) const;
    /// The number of factors per group: the scale, and with `expand` k and c.
    unsigned countFactors() const { return getExpand() ? 3 : 1; }
    /// The shape of the scales of a tensor of shape `shape`.
    SmallVector<int64_t> getScaleShape(ArrayRef<int64_t> shape) const;
    /// The types of the parts of a tensor of shape `shape`: the quantized tensor,
    /// the scales, and with `expand` k and c, or with `tensor_scale` the scale
    /// of the tensor. A tensor with two elements per byte has rank 1.
    SmallVector<RankedTensorType> getParts(ArrayRef<int64_t> shape) const;
    /// Bytes of all parts.
    uint64_t getBytes(ArrayRef<int64_t> shape) const;
  }];
}

def Binade_StochasticAttr : Binade_Attr<"Stochastic", "stochastic"> {
  let summary = "a float format with stochastic rounding";
  let description = [{
    A value between two neighbouring values of `format` becomes either, with a probability
    that makes the expectation the value itself. Stands in the formats of optimizer states
    (`#binade.storage`, `optimizer_update`).

    Example:

    ```mlir
    #binade.stochastic<bf16>
    ```
  }];
  let parameters = (ins "::mlir::FloatType":$format);
  let hasCustomAssemblyFormat = 1;
}

def Binade_MasterParameter : EnumParameter<Binade_Master> {
  let defaultValue = "::mlir::binade::Master::None";
}

def Binade_StorageAttr : Binade_Attr<"Storage", "storage"> {
  let summary = "the formats in which a parameter and its optimizer states are stored";
  let description = [{
    A decision about one `optimizer_update`. `parameter` is the format in which the
    parameter is stored and read. `master` says what is stored in addition so that small
    updates are not lost (see `optimizer_update`). `states` is the format of all optimizer
    states, or a list with the format of each, which may contain `#binade.quantized` and
    `#binade.stochastic`. `accumulator` is the format of the sums of gradients between
    batches. All are f32 by default. `rule` is as in `#binade.precision`.

    Formats are f32 and formats of 16 bits. `master` needs a parameter of 16 bits;
    `split_round`, `split_trunc` and `split_8bit` need bf16, the upper half of an f32.

    Example:

    ```mlir
    #binade.storage<parameter = bf16, master = kahan, states = bf16, rule = "mine.yaml:4">
    ```
  }];
  let parameters = (ins OptionalParameter<"::mlir::FloatType">:$parameter,
                        Binade_MasterParameter:$master,
                        OptionalParameter<"::mlir::Attribute">:$states,
                        OptionalParameter<"::mlir::FloatType">:$accumulator,
                        OptionalParameter<"::mlir::StringAttr">:$rule);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether a user wrote this decision.
    bool isPin() const { return !getRule(); }
    /// An error message if these formats are invalid, otherwise an empty string.
    static std::string explainViolation(FloatType parameter, Master master,
                                        Attribute states,
                                        FloatType accumulator);
    /// The format of state `index`; null if none is specified.
    Attribute getState(unsigned index) const;
    /// The float format of state `index`; null if none is specified, or if it is
    /// quantized.
    FloatType getStateFormat(unsigned index) const;
    /// The quantized format of state `index`; null if it is not quantized.
    QuantizedAttr getQuantized(unsigned index) const;
  }];
}

def Binade_CompanionAttr : Binade_Attr<"Companion", "companion"> {
  let summary = "the initial value of a master weight, remainder or compensation";
  let description = [{
    The initial value of the state that `master` stores in addition to the parameter with
    the name `parameter`: for `f32` the initial value of the parameter itself, for
    `split_round` and `split_trunc` its low half, for `split_8bit` the code of its rounding
    error, for `kahan` zeros, for `residual` its rounding error.

    Example:

    ```mlir
    #binade.companion<"fc1.weight", split_round>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$parameter,
                        EnumParameter<Binade_Master>:$master);
  let assemblyFormat = "`<` $parameter `,` $master `>`";
}

def Binade_SavedAttr : Binade_Attr<"Saved", "saved"> {
  let summary = "how a value that the backward pass reads gets there";
  let description = [{
    What `binade-fit-memory-budget` chose for the value of type `type` that the op `name` computes:
    to keep it, to quantize it to `format`, or to recompute it. The module's attribute
    `binade.saved` is the list of all choices.

    Example:

    ```mlir
    #binade.saved<recompute, "exp at '/act'", tensor<64x96xf32>>
    ```
  }];
  let parameters = (ins EnumParameter<Binade_SavedChoice>:$choice,
                        "::mlir::StringAttr":$name, "::mlir::Type":$type,
                        OptionalParameter<"::mlir::binade::QuantizedAttr">:$format);
  let assemblyFormat = "`<` $choice `,` $name `,` $type (`,` $format^)? `>`";
  let extraClassDeclaration = [{
    /// Bytes of what is saved for backward.
    uint64_t getBytes() const;
    /// Bytes of the value in its own format.
    uint64_t getBytesAsIs() const;
  }];
}

def Binade_PolicyAttr : Binade_Attr<"Policy", "policy"> {
  let summary = "the precision policy that a module was compiled with";
  let description = [{
    The module's attribute `binade.policy` from `binade-assign-precision` on. `text` is the
    policy file, `extends` the policy that it extends, `costs` the text of the costs that
    its cut minimizes, and `hash` the SHA-256 of all these texts.

    Example:

    ```mlir
    #binade.policy<name = "mine", hash = "0", text = "{name: mine, narrow: bf16, wide: f32}">
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::StringAttr":$hash,
                        "::mlir::StringAttr":$text,
                        OptionalParameter<"::mlir::StringAttr">:$costs,
                        OptionalParameter<"::mlir::binade::PolicyAttr">:$extends);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Binade_TargetAttr : Binade_Attr<"Target", "target"> {
  let summary = "properties of a target and its libraries";
  let description = [{
    The module's attribute `binade.target` from the kernels phase on
    (`binade-set-cpu-target`, `binade-set-cuda-target`). Passes read from it how an op is
    computed; of a CPU they read only `attention`, whose heads may have any size up to `most`:

    - `piece`: the elements from which on a short-lived value is computed in tiles, and the
      scores of attention that a tile computes at a time.
    - `codes`: the 8-bit formats that the library multiplies, the first of them with any
      other. The contracted axis and the columns must be multiples of `multiple`. f32, f16
      and bf16 are always multiplied, with a bias in the format of the result.
    - `block`: if not 0, the library takes f32 scales for blocks of as many elements of the
      contracted axis, of a row of one side and of a row or as many rows of the other. Rows
      of such scales must be multiples of `multiple` bytes.
    - `attention`: the formats in which attention is one kernel, for heads whose size is a
      multiple of 16 and at most `most`.

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
  let summary = "tensor data in a file";
  let description = [{
    `file` is relative to the directory of the module. The data are `bytes` bytes from
    `offset`, in row-major order and little-endian. `sha256`, if given, is checked when the
    data are read.

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
  let summary = "random initial values";
  let description = [{
    Drawn when training starts. `distribution` is `normal` (mean `origin`, standard
    deviation `scale`) or `uniform` (in [origin, origin + scale)). A value depends on the
    seed, the name of the parameter and the index of the element only.

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
  let summary = "a named number with a default and bounds";
  let description = [{
    A state or hyper-parameter of an optimizer (`binade.optimizer`). The value is the
    default. `min` and `max` are inclusive bounds of legal values, `below` is an exclusive
    upper bound.

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
    /// The default value.
    double getDefault() const { return getValue().getValueAsDouble(); }
    /// The range of legal values.
    ::binade::NumberRange getRange() const;
    /// An error message if `value` is not legal, otherwise an empty string.
    std::string explainViolation(double value) const;
  }];
}

#endif // BINADE_IR_BINADEATTRS_TD
