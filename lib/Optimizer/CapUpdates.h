//===- CapUpdates.h - updates no longer than a parameter is -----*- C++ -*-===//

#ifndef BINADE_LIB_OPTIMIZER_CAPUPDATES_H
#define BINADE_LIB_OPTIMIZER_CAPUPDATES_H

#include "binade/IR/Rules.h"

namespace mlir::binade {

/// The setting that `capUpdates` adds to a rule.
inline constexpr StringLiteral kUpdateCap = "max_update_norm";

/// Gives `rule` a cap on its updates: where a parameter changes by more than
/// `lr` `max_update_norm` times its norm, it changes by that. 0 is no cap.
LogicalResult capUpdates(OptimizerOp rule);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_CAPUPDATES_H
