//===- EvaluateFormula.h - numbers of a rule's formulas ---------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_EVALUATEFORMULA_H
#define BINADE_LIB_RAISING_EVALUATEFORMULA_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// What `formula` returns for constants, by folding its operations; empty where
/// one does not fold.
SmallVector<Attribute> evaluateFormula(func::FuncOp formula,
                                       ArrayRef<Attribute> arguments);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_EVALUATEFORMULA_H
