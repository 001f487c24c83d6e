//===- ProbeRule.h - what numbers say of a rule -----------------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_PROBERULE_H
#define BINADE_LIB_RAISING_PROBERULE_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// The formula of `rule` whose name ends so.
func::FuncOp getFormula(OptimizerOp rule, StringRef suffix);

/// Whether the better part of the parameter is left after the first step.
bool keepsParameter(OptimizerOp rule);

/// Whether the one hyper-parameter of `rule` is what a learning rate is: states
/// do not depend on it, with 0 the parameter is no function of gradient and
/// states, and by what it changes else is proportional to it.
bool isByRate(OptimizerOp rule);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_PROBERULE_H
