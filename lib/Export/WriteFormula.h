//===- WriteFormula.h - ONNX nodes of scalar formulas -----------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_WRITEFORMULA_H
#define BINADE_LIB_EXPORT_WRITEFORMULA_H

#include "OnnxWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade::convert {

/// Writes a formula of `arith` and `math` ops on scalars as nodes on whole
/// tensors, op by op in order, so that each is rounded as in the IR. Returns
/// the names of the results for `arguments`. Fails, without a diagnostic, if an
/// op has no nodes.
FailureOr<SmallVector<std::string>>
writeFormula(OnnxWriter &w, func::FuncOp formula,
             ArrayRef<std::string> arguments);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_WRITEFORMULA_H
