//===- RuleMatcher.h - Matching of policy rules with ops --------*- C++ -*-===//

#ifndef BINADE_PRECISION_RULEMATCHER_H
#define BINADE_PRECISION_RULEMATCHER_H

#include "binade/Precision/Policy.h"

namespace mlir::binade {

/// Finds the rules of a policy that match the ops of a training step. Computes
/// tensor roles only if a rule or a caller needs them.
class RuleMatcher {
public:
  RuleMatcher(ArrayRef<PolicyRule> rules, func::FuncOp step);

  bool matches(const PolicyRule &rule, Operation *op) const;

  /// Returns the last rule that matches `op`, or null.
  const PolicyRule *find(Operation *op);

  /// Returns the tensor roles of the step, computed at the first call.
  const OpRoles &getRoles();

private:
  ArrayRef<const PolicyRule *> getCandidates(OperationName name);

  ArrayRef<PolicyRule> rules;
  func::FuncOp step;
  std::optional<OpRoles> roles;
  /// The rules that may match ops of a name, the last rule first.
  DenseMap<OperationName, SmallVector<const PolicyRule *, 4>> candidates;
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_RULEMATCHER_H
