//===- RuleMatcher.cpp - Which rule speaks of an op -----------------------===//

#include "binade/Precision/RuleMatcher.h"
#include "binade/IR/Interface.h"
#include "binade/Precision/Names.h"

using namespace mlir;
using namespace mlir::binade;

RuleMatcher::RuleMatcher(ArrayRef<PolicyRule> rules, func::FuncOp step)
    : rules(rules) {
  if (llvm::any_of(rules, [](const PolicyRule &rule) {
        return rule.match.role || rule.match.layer;
      }))
    roles.emplace(step);
}

static bool matchesKind(const PolicySelector &match, OperationName name) {
  return match.ops.empty() ||
         llvm::is_contained(match.ops, name.stripDialect());
}

/// What the kind of the op leaves open.
static bool matchesRest(const PolicySelector &match, Operation *op,
                        const std::optional<OpRoles> &roles) {
  return (!match.phase || getPhase(op) == *match.phase) &&
         (!match.name.pattern || match.name.matches(getNodeName(op))) &&
         (!match.role || roles->has(op, *match.role)) &&
         (!match.layer || roles->isAt(op, *match.layer));
}

bool RuleMatcher::matches(const PolicyRule &rule, Operation *op) const {
  return matchesKind(rule.match, op->getName()) &&
         matchesRest(rule.match, op, roles);
}

ArrayRef<const PolicyRule *> RuleMatcher::getCandidates(OperationName name) {
  auto [entry, isNew] = candidates.try_emplace(name);
  if (isNew)
    for (const PolicyRule &rule : llvm::reverse(rules))
      if (matchesKind(rule.match, name))
        entry->second.push_back(&rule);
  return entry->second;
}

const PolicyRule *RuleMatcher::find(Operation *op) {
  for (const PolicyRule *rule : getCandidates(op->getName()))
    if (matchesRest(rule->match, op, roles))
      return rule;
  return nullptr;
}
