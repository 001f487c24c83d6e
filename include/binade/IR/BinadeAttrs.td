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
                        OptionalParameter<"::mlir::binade::ClampAttr">:$clamp,
                        OptionalParameter<"::mlir::StringAttr">:$rule);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether a user wrote this decision.
    bool isPin() const { return !getRule(); }
  }];
}

// Optional on every op that has it; the last argument of every builder.
def Binade_PrecisionArg
    : DefaultValuedOptionalAttr<Binade_PrecisionAttr,
                                "::mlir::binade::PrecisionAttr()"> {
  let constBuilderCall = "$0";
}

def Binade_MasterParameter : EnumParameter<Binade_Master> {
  let defaultValue = "::mlir::binade::Master::None";
}

def Binade_StorageAttr : Binade_Attr<"Storage", "storage"> {
  let summary = "the formats in which a parameter and its states are kept";
  let description = [{
    A decision about one `optimizer_update`. `parameter` is the format in which the
    parameter waits for its readers, `master` what keeps the updates that this
    format would lose, `states` the format of all states of the optimizer,
    `accumulator` that of sums of gradients between batches; f32 where nothing is
    said. `rule` is as in `#binade.precision`.

    Formats are f32 and formats of 16 bits. `master` needs a parameter of 16 bits;
    `split_round`, `split_trunc` and `stochastic` work on the upper half of an f32,
    which is bf16.

    Example:

    ```mlir
    #binade.storage<parameter = bf16, master = kahan, states = bf16,
                    rule = "mine.yaml:4">
    ```
  }];
  let parameters = (ins OptionalParameter<"::mlir::FloatType">:$parameter,
                        Binade_MasterParameter:$master,
                        OptionalParameter<"::mlir::FloatType">:$states,
                        OptionalParameter<"::mlir::FloatType">:$accumulator,
                        OptionalParameter<"::mlir::StringAttr">:$rule);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether a user wrote this decision.
    bool isPin() const { return !getRule(); }
    /// What is wrong with these formats, or an empty string.
    static std::string explainViolation(FloatType parameter, Master master,
                                        FloatType states,
                                        FloatType accumulator);
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
