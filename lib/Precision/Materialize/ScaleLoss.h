//===- ScaleLoss.h - Loss scaling -------------------------------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MATERIALIZE_SCALELOSS_H
#define BINADE_LIB_PRECISION_MATERIALIZE_SCALELOSS_H

#include "binade/Precision/Policy.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Multiplies the gradient at which the backward pass of `step` starts by the
/// loss scale, and makes the optimizer divide by it. A dynamic scale is a state
/// of the program, a static one a constant. Runs before decisions become types.
/// Does nothing if the loss is already scaled. Emits an error if the step
/// cannot be scaled.
LogicalResult scaleLoss(func::FuncOp step, const LossScaling &scaling);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MATERIALIZE_SCALELOSS_H
