//===- EraseDead.h - Removal of unused ops ----------------------*- C++ -*-===//

#ifndef BINADE_IR_ERASEDEAD_H
#define BINADE_IR_ERASEDEAD_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Erases the ops of a function that have no side effects and no users, and
/// those used only by erased ops. Does not enter regions of ops. Takes linear
/// time.
void eraseDead(func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_IR_ERASEDEAD_H
