//===- RuleMatcher.cpp - Matching of policy rules with ops ----------------===//

#include "binade/Precision/RuleMatcher.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Names.h"

using namespace mlir;
using namespace mlir::binade;

RuleMatcher::RuleMatcher(ArrayRef<PolicyRule> rules, func::FuncOp step)
    : rules(rules), step(step) {
  if (llvm::any_of(rules, [](const PolicyRule &rule) {
        return rule.match.role || rule.match.layer || rule.match.blocks;
      }))
    getRoles();
}

const OpRoles &RuleMatcher::getRoles() {
  if (!roles)
    roles.emplace(step);
  return *roles;
}

/// Whether the rule applies to the kind of op: its settings show whether it is
/// about optimizer updates or about other ops.
static bool matchesKind(const PolicyRule &rule, OperationName name) {
  bool isUpdate = name.getStringRef() == OptimizerUpdateOp::getOperationName();
  ArrayRef<std::string> ops = rule.match.ops;
  return rule.settings.areOfUpdates() == isUpdate &&
         (ops.empty() || llvm::is_contained(ops, name.stripDialect()));
}

/// Whether `op` matches the selector apart from the kind of op.
static bool matchesRest(const PolicySelector &match, Operation *op,
                        const std::optional<OpRoles> &roles) {
  return (!match.phase || getPhase(op) == *match.phase) &&
         (!match.name.pattern || match.name.matches(getNodeName(op))) &&
         (!match.role || roles->has(op, *match.role)) &&
         (!match.layer || roles->isAt(op, *match.layer)) &&
         (!match.blocks || roles->isIn(op, *match.blocks));
}

bool RuleMatcher::matches(const PolicyRule &rule, Operation *op) const {
  return matchesKind(rule, op->getName()) && matchesRest(rule.match, op, roles);
}

ArrayRef<const PolicyRule *> RuleMatcher::getCandidates(OperationName name) {
  auto [entry, isNew] = candidates.try_emplace(name);
  if (isNew)
    for (const PolicyRule &rule : llvm::reverse(rules))
      if (matchesKind(rule, name))
        entry->second.push_back(&rule);
  return entry->second;
}

const PolicyRule *RuleMatcher::find(Operation *op) {
  for (const PolicyRule *rule : getCandidates(op->getName()))
    if (matchesRest(rule->match, op, roles))
      return rule;
  return nullptr;
}
