//===- ScaleLoss.h - The scale of the loss in a step ------------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MATERIALIZE_SCALELOSS_H
#define BINADE_LIB_PRECISION_MATERIALIZE_SCALELOSS_H

#include "binade/Precision/Policy.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Starts the backward part of `step`, whose decisions are not types yet, from
/// the scale and lets the optimizer divide by it. A dynamic scale becomes state
/// of the program, a static one a constant. Does nothing where the loss is
/// scaled already.
LogicalResult scaleLoss(func::FuncOp step, const LossScaling &scaling);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MATERIALIZE_SCALELOSS_H
