//===- CapUpdates.h - Limit the norm of updates -----------------*- C++ -*-===//

#ifndef BINADE_LIB_OPTIMIZER_CAPUPDATES_H
#define BINADE_LIB_OPTIMIZER_CAPUPDATES_H

#include "binade/IR/Rules.h"

namespace mlir::binade {

/// The setting that `capUpdates` adds to a rule.
inline constexpr StringLiteral kUpdateCap = "max_update_norm";

/// Limits the updates of `rule`: if a parameter changes by more than `lr` times
/// `max_update_norm` times its norm, the change is shortened to that. 0 means
/// no limit. Emits an error if the rule cannot be limited.
LogicalResult capUpdates(OptimizerOp rule);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_CAPUPDATES_H
