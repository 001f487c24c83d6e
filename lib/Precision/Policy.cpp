//===- Policy.cpp - What a user says about precision ----------------------===//

#include "binade/Precision/Policy.h"
#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

bool mlir::binade::hasChosenFormat(PrecisionOpInterface op) {
  for (unsigned i = 0, e = op->getNumOperands(); i < e; ++i)
    if (op.getOperandFormat(i) == FormatRole::Chosen)
      return true;
  for (unsigned i = 0, e = op->getNumResults(); i < e; ++i)
    if (op.getResultFormat(i) == FormatRole::Chosen)
      return true;
  return false;
}

StringRef mlir::binade::getNodeName(Operation *op) {
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    return name.getName();
  return "";
}

bool PolicyRule::matches(Operation *op, const OpRoles &roles) const {
  return (match.ops.empty() ||
          llvm::is_contained(match.ops, op->getName().stripDialect())) &&
         (!match.phase || getPhase(op) == *match.phase) &&
         match.name.matches(getNodeName(op)) &&
         (!match.role || roles.has(op, *match.role)) &&
         (!match.layer || roles.isAt(op, *match.layer));
}

const PolicyRule *Policy::findRule(Operation *op, const OpRoles &roles) const {
  for (const PolicyRule &rule : llvm::reverse(rules))
    if (rule.matches(op, roles))
      return &rule;
  return nullptr;
}
