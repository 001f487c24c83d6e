//===- PairByValue.h - whose gradient is whose, by numbers ------*- C++ -*-===//

#ifndef BINADE_LIB_RECOVERY_PAIRBYVALUE_H
#define BINADE_LIB_RECOVERY_PAIRBYVALUE_H

#include "FindUpdates.h"

namespace mlir::binade {

/// Whether evaluating `function` and its gradients takes seconds at most.
bool isSmall(func::FuncOp function);

/// For each of `gradients`, results of `function`, which of `arguments` it is
/// the gradient of, if one alone: the loss is differentiated, and everything
/// evaluated by the reference, at a point drawn at random. Empty where that
/// fails.
SmallVector<std::optional<unsigned>>
pairByValue(func::FuncOp function, unsigned loss, ArrayRef<unsigned> gradients,
            ArrayRef<BlockArgument> arguments);

} // namespace mlir::binade

#endif // BINADE_LIB_RECOVERY_PAIRBYVALUE_H
