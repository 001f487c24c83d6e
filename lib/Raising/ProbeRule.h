//===- ProbeRule.h - Numerical checks of imported rules ---------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_PROBERULE_H
#define BINADE_LIB_RAISING_PROBERULE_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Returns the formula of `rule` whose name ends with `suffix`.
func::FuncOp getFormula(OptimizerOp rule, StringRef suffix);

/// Whether the first update keeps most of the parameter: a change of the
/// parameter by 1 changes the result by 0.5 to 1.5.
bool keepsParameter(OptimizerOp rule);

/// Whether the only hyper-parameter of `rule` acts as a learning rate: states
/// do not depend on it, the parameter does not depend on gradient and states if
/// it is 0, and otherwise its change is proportional to it.
bool hasLearningRate(OptimizerOp rule);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_PROBERULE_H
