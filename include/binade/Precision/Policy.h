//===- Policy.h - Precision policies ----------------------------*- C++ -*-===//

#ifndef BINADE_PRECISION_POLICY_H
#define BINADE_PRECISION_POLICY_H

#include "binade/IR/AlarmRequests.h"
#include "binade/IR/ExchangeFormat.h"
#include "binade/Precision/Costs.h"
#include "binade/Precision/CountOrShare.h"
#include "binade/Precision/Evidence.h"
#include "binade/Precision/LayerProducts.h"
#include "binade/Precision/StateFormats.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/GlobPattern.h"

namespace mlir::binade {

/// Whether a decision chooses the format of an operand or a result of `op`.
bool hasChosenFormat(PrecisionOpInterface op);

/// Returns what a decision records as its rule if the op's class alone decided.
std::string getOrigin(PrecisionClass precisionClass);

/// The formats of operands with constant scales, by what the operands are; null
/// if the rule scales nothing.
struct UnitScaling {
  FloatType activation, weight, gradient;

  FloatType get(OperandKind kind) const {
    return kind == OperandKind::Activation ? activation
           : kind == OperandKind::Weight   ? weight
                                           : gradient;
  }
  explicit operator bool() const { return bool(activation); }
  bool operator==(const UnitScaling &) const = default;
};

/// What a rule sets for the ops that it matches: a class, or formats. Absent
/// members keep the op's own class, or what the class decides.
struct PolicySettings {
  std::optional<PrecisionClass> precisionClass;
  FloatType compute, accumulate, result;
  /// The format in which results are saved for the backward pass: a float type
  /// (as TypeAttr) or `#binade.quantized`.
  Attribute saved;
  ProductFormats quantize;
  /// How matmuls of operands in FP8 add products.
  ProductAccumulation accumulation;
  UnitScaling unitScale;
  /// How results that overflow stay finite.
  std::optional<Clamp> clamp;
  /// The storage formats of the parameter, of the optimizer states, and of
  /// accumulated gradients; used by optimizer updates.
  FloatType parameter, accumulator;
  StateFormats state;
  std::optional<Master> master;

  /// Whether the settings apply to optimizer updates, instead of other ops.
  bool areOfUpdates() const {
    return parameter || state || accumulator || master;
  }

  bool operator==(const PolicySettings &) const = default;
};

/// A glob over names. Without a pattern it matches every name.
struct NameGlob {
  std::string text;
  std::optional<llvm::GlobPattern> pattern;

  bool matches(StringRef name) const {
    return !pattern || pattern->match(name);
  }
  bool operator==(const NameGlob &other) const { return text == other.text; }
};

/// Builds the glob `text`, which is kept as long as the context.
llvm::Expected<NameGlob> buildGlob(StringRef text, MLIRContext *context);

/// Which ops a rule matches; absent members match any op.
struct PolicySelector {
  /// Op names without the dialect prefix.
  std::vector<std::string> ops;
  /// Matches the names of nodes.
  NameGlob name;
  std::optional<Phase> phase;
  std::optional<TensorRole> role;
  std::optional<LayerPosition> layer;
  std::optional<BlockEnds> blocks;

  bool operator==(const PolicySelector &) const = default;
};

/// One entry of a policy's `rules`.
struct PolicyRule {
  PolicySelector match;
  PolicySettings settings;
  /// Whether the rule may match no op. Otherwise that is an error for a rule of
  /// a user's file.
  bool isOptional = false;
  /// Whether the rule is from a user's file, not from a shipped one.
  bool isUser = false;
  /// "file:line", recorded in each decision.
  std::string origin;
  LocationAttr location;
};

/// Formats of the states of the parameters that `name` matches. They override
/// the rules.
struct StateOverride {
  NameGlob name;
  StateFormats formats;
};

/// Settings of loss scaling per layer; see `scaleLayers`.
struct LayerScaling {
  /// The fraction of the gradient elements of a layer that may flush to zero,
  /// under the assumption that they are normally distributed.
  double underflow = 1e-3;
  /// The largest scale of a layer, and the largest product of the scales of all
  /// layers on the way to it.
  double bound = 16.0, gathered = 1024.0;

  bool operator==(const LayerScaling &) const = default;
};

/// Settings of loss scaling. The defaults are those of PyTorch's GradScaler;
/// `UpdateScaleOp` explains the other members.
struct LossScaling {
  /// A constant scale, which makes the other members meaningless.
  std::optional<double> fixed;
  double init = 65536.0, growth = 2.0, backoff = 0.5;
  int64_t interval = 2000;
  std::optional<double> min, max;
  int64_t delay = 0, hysteresis = 1;
  bool consecutiveHysteresis = false;
  /// The fraction of the nonzero narrow gradients that may round to 0, see
  /// `RaiseScaleOp`, and the number of good steps between two checks.
  std::optional<double> underflow;
  int64_t check = 100;
  std::optional<LayerScaling> layers;
  /// Whether each gradient also has a scale of its own, to which `underflow`
  /// and `check` then apply.
  bool perTensor = false;

  bool operator==(const LossScaling &) const = default;
};

/// A format that the cut may choose in addition to the wide one.
struct CutFormat {
  FloatType format;
  /// Seconds that are added to the cost of each `infer` op in the format,
  /// because of its rounding errors.
  double penalty = 0;
};

/// Settings of the cut, which minimizes the run time instead of following the
/// classes: it chooses the cheapest formats for `allow`, `infer` and `clear`
/// ops.
struct CutSettings {
  /// The name of shipped costs, or a file next to the policy.
  std::string costs;
  LocationAttr location;
  /// If empty, the narrow format without penalty.
  std::vector<CutFormat> formats;
  /// The cost in seconds of a GiB that is saved for the backward pass.
  double memory = 0;
  /// The contents of `costs`.
  TargetCosts target;
};

/// The format in which contractions that compute narrow read their biases: f32,
/// or that of the result.
enum class BiasFormat { Wide, Narrow };

/// An entry of a schedule: the policy to which training switches, and when.
struct PolicySwitch {
  /// The number of steps before the switch, or their share of all steps.
  CountOrShare after;
  std::string policy; ///< The name of a shipped policy, or a file.
  LocationAttr location;
};

/// Returns the words `after 85% of all steps` or `after 100 steps`.
std::string describeStart(const PolicySwitch &later);

/// A precision policy: two formats, rules, and loss scaling. A policy without
/// rules whose two formats are equal decides nothing.
struct Policy {
  std::string name;
  /// The policy that this one extends, as the file names it; empty for none.
  std::string extends;
  LocationAttr extendsLocation;
  FloatType narrow, wide;
  /// How classes become formats; the operand rule if absent.
  std::optional<Propagation> propagate;
  /// The format of biases; wide if absent.
  std::optional<BiasFormat> biases;
  /// The rules, those of the extended policy first.
  std::vector<PolicyRule> rules;
  std::optional<LossScaling> lossScaling;
  std::optional<CutSettings> cut;
  std::optional<EvidenceLimits> limits;
  /// The number of steps after which a recorded magnitude counts half in
  /// delayed scales. If absent, magnitudes count in full until they leave the
  /// history.
  std::optional<int64_t> amaxHalfLife;
  /// The format in which ranks exchange gradients, if the step is compiled for
  /// a group.
  std::optional<ExchangeFormat> exchange;
  /// Requests for statistics in the syntax of `--stats`, those of the extended
  /// policy first.
  std::vector<std::string> statistics;
  /// The alarms of runs under this policy and their action, combined with those
  /// of the extended policy.
  AlarmRequests alarms;
  /// The switches of a run of `binade train`, in their order. Other commands
  /// use the policy itself for all steps.
  std::optional<std::vector<PolicySwitch>> schedule;
  /// The ranges that a run recorded, if a user passed them; not part of
  /// `source`.
  std::shared_ptr<const Evidence> evidence;
  /// The directory of external weights. Decisions depend on the weights,
  /// because a format must represent them. If empty, the weights are not read.
  std::string directory;
  /// Formats of states from `--states`; the last one that matches wins.
  std::vector<StateOverride> states;
  /// The text of all files of the policy; null until they are read completely.
  PolicyAttr source;

  bool narrowsBiases() const { return biases == BiasFormat::Narrow; }
  /// Whether ops get formats. Otherwise only states may differ from f32.
  bool decidesOps() const { return narrow != wide || !rules.empty(); }
  bool isIdentity() const { return !decidesOps() && states.empty(); }
};

/// Returns the formats that an assigner may choose, the wide one first.
SmallVector<FloatType> getFormatChoices(const Policy &policy);

/// Returns the names of the policies that Binade ships, sorted.
std::vector<StringRef> getPolicyNames();

/// Loads the policy called `name`, or the file `name` if that ends in .yaml.
/// Looks for the policy that it extends in the same directory. Emits errors
/// with file, line and column.
FailureOr<Policy> loadPolicy(StringRef name, MLIRContext *context);

/// Warns if `policy` has a schedule, which a compiled step ignores: it keeps
/// the formats before the first switch.
void warnAboutIgnoredSchedule(const Policy &policy);

/// Reads a policy from the texts that a module stores.
FailureOr<Policy> readPolicy(PolicyAttr source);

/// Adds the recorded ranges in `file` to `policy`; does nothing for an empty
/// name.
LogicalResult addEvidence(Policy &policy, StringRef file, MLIRContext *context);

/// Adds formats of states to `policy`. Each text is "FORMAT", or "GLOB:FORMAT"
/// for the parameters whose names match.
LogicalResult addStateFormats(Policy &policy, ArrayRef<std::string> states,
                              MLIRContext *context);

/// Returns the names of the targets whose costs Binade ships, sorted.
std::vector<StringRef> getCostNames();

/// Reads the costs of a target: those that Binade ships as `name`, or the file
/// `name` if it ends in .yaml. Emits errors.
FailureOr<TargetCosts> loadCosts(StringRef name, MLIRContext *context);

/// Writes `costs` as the text of a file that `loadPolicy` reads.
std::string writeCosts(const TargetCosts &costs);

/// Returns the JSON schema of policy files, for editors.
std::string getPolicySchema();

} // namespace mlir::binade

#endif // BINADE_PRECISION_POLICY_H
