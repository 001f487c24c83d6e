//===- Formulas.cpp - The formulas of an optimizer rule -------------------===//

#include "Formulas.h"

using namespace mlir;
using namespace mlir::binade;

func::FuncOp mlir::binade::findFormula(OptimizerOp rule, StringRef suffix) {
  return rule->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(
      (rule.getSymName() + suffix).str());
}

Value mlir::binade::addSetting(OptimizerOp rule, func::FuncOp scalars,
                               SettingAttr setting) {
  Builder b(rule.getContext());
  SmallVector<Attribute> hypers(rule.getHypers().begin(),
                                rule.getHypers().end());
  hypers.push_back(setting);
  rule.setHypersAttr(b.getArrayAttr(hypers));
  unsigned index = scalars.getNumArguments();
  (void)scalars.insertArgument(index, b.getF64Type(), {}, scalars.getLoc());
  return scalars.getArgument(index);
}

void mlir::binade::addResult(func::FuncOp formula, Value value) {
  (void)formula.insertResult(formula.getNumResults(), value.getType(), {});
  Operation *end = formula.front().getTerminator();
  end->insertOperands(end->getNumOperands(), value);
}
