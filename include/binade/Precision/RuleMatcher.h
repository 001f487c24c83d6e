//===- RuleMatcher.h - which rule speaks of an op ---------------*- C++ -*-===//

#ifndef BINADE_PRECISION_RULEMATCHER_H
#define BINADE_PRECISION_RULEMATCHER_H

#include "binade/Precision/Policy.h"

namespace mlir::binade {

/// Finds the rules of a policy that match the ops of a training step. Asks for
/// roles only where a rule does.
class RuleMatcher {
public:
  RuleMatcher(ArrayRef<PolicyRule> rules, func::FuncOp step);

  bool matches(const PolicyRule &rule, Operation *op) const;

  /// The last rule that matches `op`, or null.
  const PolicyRule *find(Operation *op);

  /// Of the step; found when they are first asked for.
  const OpRoles &getRoles();

private:
  ArrayRef<const PolicyRule *> getCandidates(OperationName name);

  ArrayRef<PolicyRule> rules;
  func::FuncOp step;
  std::optional<OpRoles> roles;
  /// Rules that may match ops of a name, the last first.
  DenseMap<OperationName, SmallVector<const PolicyRule *, 4>> candidates;
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_RULEMATCHER_H
