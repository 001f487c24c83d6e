//===- LibraryCalls.h - Library calls as records ----------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_PLAN_LIBRARYCALLS_H
#define BINADE_LIB_KERNELS_PLAN_LIBRARYCALLS_H

#include "binade/IR/Binade.h"
#include "binade/Plan/Plan.h"
#include <functional>

namespace mlir::binade {

/// Returns the record of a library op. `view` returns the place of a value,
/// without strides. Fails with a diagnostic for an op that no record describes.
FailureOr<::binade::plan::Record>
buildLibraryCall(Operation *op,
                 const std::function<::binade::plan::View(Value)> &view);

/// Whether the record has strides for the operand or result. The last axis is
/// always contiguous.
bool hasStrides(OpOperand &operand);
bool hasStrides(OpResult result);

/// Whether the record of the result's op does not write it, so that it needs no
/// memory: gradients of biases that nothing reads, such as of masks.
bool isOmitted(OpResult result);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_PLAN_LIBRARYCALLS_H
