//===- SaveValues.h - Save values for the backward pass ---------*- C++ -*-===//

#ifndef BINADE_AUTODIFF_SAVEVALUES_H
#define BINADE_AUTODIFF_SAVEVALUES_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Inserts a `save` between each forward value and its users in the backward
/// pass of `function`. Returns the inserted ops.
SmallVector<SaveOp> saveForwardValues(func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_AUTODIFF_SAVEVALUES_H
