//===- Policy.h - what a user says about precision --------------*- C++ -*-===//

#ifndef BINADE_PRECISION_POLICY_H
#define BINADE_PRECISION_POLICY_H

#include "binade/IR/Binade.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/GlobPattern.h"

namespace mlir::binade {

/// What a rule says about the ops that it matches: a class, or formats. Absent
/// members leave the op's own class, or what the class decides, as it is.
struct PolicySettings {
  std::optional<PrecisionClass> precisionClass;
  FloatType compute, accumulate, result;

  bool operator==(const PolicySettings &) const = default;
};

/// One entry of a policy's `rules`.
struct PolicyRule {
  /// Op name without the dialect prefix; empty for any.
  std::string op;
  /// Node name; none for any.
  std::optional<llvm::GlobPattern> name;
  std::string nameText;
  std::optional<Phase> phase;
  PolicySettings settings;
  /// A rule of a user's file has to match something unless it says this.
  bool isOptional = false;
  /// "file:line", kept with each decision.
  std::string origin;
  LocationAttr location;

  bool matches(Operation *op) const;
  bool hasSameSelector(const PolicyRule &other) const;
};

/// Dynamic loss scaling; the members are GradScaler's.
struct LossScaling {
  double init = 65536.0, growth = 2.0, backoff = 0.5;
  int64_t interval = 2000;
};

/// A precision policy: two formats, deviations from the ops' classes, and loss
/// scaling. A policy whose two formats are equal decides nothing.
struct Policy {
  std::string name;
  FloatType narrow, wide;
  std::vector<PolicyRule> rules;
  std::optional<LossScaling> lossScaling;
  /// The YAML text that this was read from, and its SHA-256.
  std::string text, hash;
  /// Whether a user wrote it; the others are shipped.
  bool isFile = false;

  bool isIdentity() const { return narrow == wide; }
  /// The last rule that matches `op`, or null.
  const PolicyRule *findRule(Operation *op) const;
  PolicyAttr toAttribute(MLIRContext *context) const;
};

/// Names of the policies that Binade ships, sorted.
std::vector<StringRef> getPolicyNames();

/// The policy called `name`, or the one in the file `name` (when it ends in
/// .yaml). Emits diagnostics with file, line and column.
FailureOr<Policy> loadPolicy(StringRef name, MLIRContext *context);

/// Reads policy text; `file` stands in diagnostics and in the rules' origins.
FailureOr<Policy> parsePolicy(StringRef text, StringRef file,
                              MLIRContext *context);

} // namespace mlir::binade

#endif // BINADE_PRECISION_POLICY_H
