//===- OneFormat.h - Ops whose operands and results are alike ---*- C++ -*-===//

#ifndef BINADE_IR_ONEFORMAT_H
#define BINADE_IR_ONEFORMAT_H

#include "mlir/IR/Operation.h"

namespace mlir::binade {

/// Whether `op` copies elements bit for bit, so that a decision has one format
/// for its operands and results.
bool hasOneFormat(Operation *op);

} // namespace mlir::binade

#endif // BINADE_IR_ONEFORMAT_H
