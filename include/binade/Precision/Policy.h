//===- Policy.h - what a user says about precision --------------*- C++ -*-===//

#ifndef BINADE_PRECISION_POLICY_H
#define BINADE_PRECISION_POLICY_H

#include "binade/IR/AlarmRequests.h"
#include "binade/IR/Binade.h"
#include "binade/Precision/Costs.h"
#include "binade/Precision/Evidence.h"
#include "binade/Precision/OpRoles.h"
#include "binade/Precision/StateFormats.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/GlobPattern.h"

namespace mlir::binade {

/// Whether a decision says the format of an operand or a result of `op`.
bool hasChosenFormat(PrecisionOpInterface op);

/// What a decision keeps as its rule when the op's class alone decided.
std::string getOrigin(PrecisionClass precisionClass);

/// What a rule says about the ops that it matches: a class, or formats. Absent
/// members leave the op's own class, or what the class decides, as it is.
/// What operands of ops that sum products are quantized to, by what they are;
/// null where they are not.
struct OperandFormats {
  QuantizedAttr activation, weight, gradient;

  explicit operator bool() const { return activation || weight || gradient; }
  bool operator==(const OperandFormats &) const = default;
};

struct PolicySettings {
  std::optional<PrecisionClass> precisionClass;
  FloatType compute, accumulate, result;
  /// What the backward part reads of the results is kept in this format: a
  /// float type (as TypeAttr) or `#binade.quantized`.
  Attribute saved;
  OperandFormats quantize;
  /// How results that overflow stay finite.
  std::optional<Clamp> clamp;
  /// How updates keep the parameter, what the optimizer remembers, and sums of
  /// gradients.
  FloatType parameter, accumulator;
  StateFormats state;
  std::optional<Master> master;

  /// Whether this is about updates of parameters; all other ops are computed.
  bool areOfUpdates() const {
    return parameter || state || accumulator || master;
  }

  bool operator==(const PolicySettings &) const = default;
};

/// A glob over names; one without text matches all.
struct NameGlob {
  std::string text;
  std::optional<llvm::GlobPattern> pattern;

  bool matches(StringRef name) const {
    return !pattern || pattern->match(name);
  }
  bool operator==(const NameGlob &other) const { return text == other.text; }
};

/// The glob `text`, which is kept as long as the context.
llvm::Expected<NameGlob> buildGlob(StringRef text, MLIRContext *context);

/// Which ops a rule speaks of; absent members match any.
struct PolicySelector {
  /// Op names without the dialect prefix.
  std::vector<std::string> ops;
  /// Over the names of nodes.
  NameGlob name;
  std::optional<Phase> phase;
  std::optional<TensorRole> role;
  std::optional<LayerPosition> layer;

  bool operator==(const PolicySelector &) const = default;
};

/// One entry of a policy's `rules`.
struct PolicyRule {
  PolicySelector match;
  PolicySettings settings;
  /// A rule of a user's file has to match something unless it says this.
  bool isOptional = false;
  /// Whether it stands in a user's file; the others are shipped.
  bool isUser = false;
  /// "file:line", kept with each decision.
  std::string origin;
  LocationAttr location;
};

/// Formats of states whatever the rules say, of the parameters that `name`
/// matches.
struct StateOverride {
  NameGlob name;
  StateFormats formats;
};

/// A scale of gradients for each layer; see `scaleLayers`.
struct LayerScaling {
  /// Share of the elements that a layer passes on which may vanish, where they
  /// are normally distributed.
  double underflow = 1e-3;
  /// Largest scale of a layer, and of all layers up to it.
  double bound = 16.0, gathered = 1024.0;

  bool operator==(const LayerScaling &) const = default;
};

/// Loss scaling. Without changes the dynamic one of GradScaler; `UpdateScaleOp`
/// says what the others mean.
struct LossScaling {
  /// A scale that never changes: the others mean nothing then.
  std::optional<double> fixed;
  double init = 65536.0, growth = 2.0, backoff = 0.5;
  int64_t interval = 2000;
  std::optional<double> min, max;
  int64_t delay = 0, hysteresis = 1;
  bool consecutiveHysteresis = false;
  /// Share of narrow gradients that may become 0; see `RaiseScaleOp`. Good
  /// steps between two looks at it.
  std::optional<double> underflow;
  int64_t check = 100;
  std::optional<LayerScaling> layers;
  /// Whether each gradient has a scale of its own besides, which `underflow`
  /// and `check` then speak of.
  bool perTensor = false;

  bool operator==(const LossScaling &) const = default;
};

/// A format that the cut may choose beside the wide one.
struct CutFormat {
  FloatType format;
  /// Seconds that each `infer` op in the format is charged, for what it does to
  /// the numbers.
  double penalty = 0;
};

/// Formats of least cost instead of by classes alone: `allow`, `infer` and
/// `clear` ops have whichever is cheapest.
struct CutSettings {
  /// Name of shipped costs, or a file beside the policy.
  std::string costs;
  LocationAttr location;
  /// The narrow format without penalty where none is named.
  std::vector<CutFormat> formats;
  /// Seconds that a GiB is worth which waits for the backward part.
  double memory = 0;
  /// What `costs` says.
  TargetCosts target;
};

/// A precision policy: two formats, deviations from the ops' classes, and loss
/// scaling. One whose two formats are equal and that has no rules decides
/// nothing.
struct Policy {
  std::string name;
  /// The policy that this one changes, as the file names it; empty for none.
  std::string extends;
  LocationAttr extendsLocation;
  FloatType narrow, wide;
  /// How classes become formats; by operands where nothing is said.
  std::optional<Propagation> propagate;
  /// Those of the policy that this one extends come first.
  std::vector<PolicyRule> rules;
  std::optional<LossScaling> lossScaling;
  std::optional<CutSettings> cut;
  std::optional<EvidenceLimits> limits;
  /// The number of steps after which a recorded magnitude counts half in
  /// delayed scales. Without it magnitudes count in full until they leave the
  /// history.
  std::optional<int64_t> amaxHalfLife;
  /// Requests for statistics, as `--stats` takes them, of a policy that this
  /// one extends first.
  std::vector<std::string> statistics;
  /// Alarms of runs under it, and what they lead to; as `statistics` with what
  /// it extends.
  AlarmRequests alarms;
  /// What a run recorded, where a user gave that; it is no part of `source`.
  std::shared_ptr<const Evidence> evidence;
  /// The directory of external weights, which decisions depend on: a format
  /// must represent them. If empty, they are not read.
  std::string directory;
  /// What a user says of states beside the policy; the last that matches holds.
  std::vector<StateOverride> states;
  /// All texts that this was read from; null until it was read whole.
  PolicyAttr source;

  /// Whether ops get formats; otherwise all is f32, but for states maybe.
  bool decidesOps() const { return narrow != wide || !rules.empty(); }
  bool isIdentity() const { return !decidesOps() && states.empty(); }
};

/// The formats that an assigner may choose: the wide one first.
SmallVector<FloatType> getFormatChoices(const Policy &policy);

/// Names of the policies that Binade ships, sorted.
std::vector<StringRef> getPolicyNames();

/// The policy called `name`, or the one in the file `name` (when it ends in
/// .yaml); what it extends is found beside it. Emits diagnostics with file,
/// line and column.
FailureOr<Policy> loadPolicy(StringRef name, MLIRContext *context);

/// Reads a policy from the texts that a module keeps.
FailureOr<Policy> readPolicy(PolicyAttr source);

/// Lets `policy` know the ranges in `file`; nothing for an empty name.
LogicalResult addEvidence(Policy &policy, StringRef file, MLIRContext *context);

/// Formats of states beside the policy, each "FORMAT", or "GLOB:FORMAT" for the
/// parameters whose names match.
LogicalResult addStateFormats(Policy &policy, ArrayRef<std::string> states,
                              MLIRContext *context);

/// Names of the targets whose costs Binade ships, sorted.
std::vector<StringRef> getCostNames();

/// `costs` as a file that `loadPolicy` reads.
std::string writeCosts(const TargetCosts &costs);

/// JSON schema of policy files, for editors.
std::string getPolicySchema();

} // namespace mlir::binade

#endif // BINADE_PRECISION_POLICY_H
