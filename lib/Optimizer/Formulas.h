//===- Formulas.h - The formulas of an optimizer rule -----------*- C++ -*-===//

#ifndef BINADE_LIB_OPTIMIZER_FORMULAS_H
#define BINADE_LIB_OPTIMIZER_FORMULAS_H

#include "binade/IR/Rules.h"

namespace mlir::binade {

/// Returns the formula of `rule` with this suffix, such as ".update", or null.
func::FuncOp findFormula(OptimizerOp rule, StringRef suffix);

/// Appends a hyper-parameter to `rule`. Returns the argument of `scalars`, the
/// formula of the rule's scalars, that has its value.
Value addSetting(OptimizerOp rule, func::FuncOp scalars, SettingAttr setting);

/// Appends a result to a formula.
void addResult(func::FuncOp formula, Value value);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_FORMULAS_H
