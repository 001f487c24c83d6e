//===- EraseDead.h - ops whose results nobody reads -------------*- C++ -*-===//

#ifndef BINADE_IR_ERASEDEAD_H
#define BINADE_IR_ERASEDEAD_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Erases the ops of a function without effects and readers, and those that
/// only these read; regions of ops are left alone. Linear.
void eraseDead(func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_IR_ERASEDEAD_H
