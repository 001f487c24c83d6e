//===- LibraryCalls.h - contractions and convolutions as records *- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_PLAN_LIBRARYCALLS_H
#define BINADE_LIB_KERNELS_PLAN_LIBRARYCALLS_H

#include "binade/IR/Binade.h"
#include "binade/Plan/Plan.h"
#include <functional>

namespace mlir::binade {

/// The record of a library op; `view` gives the place of a value, without
/// strides. Fails, with a diagnostic, for an op that no record describes.
FailureOr<::binade::plan::Record>
buildLibraryCall(Operation *op,
                 const std::function<::binade::plan::View(Value)> &view);

/// Whether the record has a stride for each axis of the operand or result but
/// the last, along which elements are next to one another.
bool hasStrides(OpOperand &operand);
bool hasStrides(OpResult result);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_PLAN_LIBRARYCALLS_H
