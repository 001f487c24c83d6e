//===- SaveValues.h - What waits for the backward part ----------*- C++ -*-===//

#ifndef BINADE_AUTODIFF_SAVEVALUES_H
#define BINADE_AUTODIFF_SAVEVALUES_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Puts a `save` between each forward value and what reads it in the backward
/// part of `function`, and returns them.
SmallVector<SaveOp> saveForwardValues(func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_AUTODIFF_SAVEVALUES_H
