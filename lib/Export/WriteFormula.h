//===- WriteFormula.h - Formulas of scalars as nodes ------------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_WRITEFORMULA_H
#define BINADE_LIB_EXPORT_WRITEFORMULA_H

#include "OnnxWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade::convert {

/// Writes a formula of `arith` and `math` ops on scalars as nodes over whole
/// tensors, op by op in their order, so that each is rounded as the IR has it.
/// Returns the results for `arguments`. Fails, without a word, at an op that
/// has no nodes.
FailureOr<SmallVector<std::string>>
writeFormula(OnnxWriter &w, func::FuncOp formula,
             ArrayRef<std::string> arguments);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_WRITEFORMULA_H
