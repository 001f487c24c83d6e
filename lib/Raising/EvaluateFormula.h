//===- EvaluateFormula.h - Constant evaluation of formulas ------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_EVALUATEFORMULA_H
#define BINADE_LIB_RAISING_EVALUATEFORMULA_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Evaluates `formula` for constant arguments by folding its operations.
/// Returns nothing if one does not fold.
SmallVector<Attribute> evaluateFormula(func::FuncOp formula,
                                       ArrayRef<Attribute> arguments);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_EVALUATEFORMULA_H
