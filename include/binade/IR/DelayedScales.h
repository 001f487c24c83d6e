//===- DelayedScales.h - Scales computed from earlier steps -----*- C++ -*-===//

#ifndef BINADE_IR_DELAYEDSCALES_H
#define BINADE_IR_DELAYEDSCALES_H

#include "mlir/Support/LLVM.h"

namespace mlir::binade {

/// On a module, an integer: the number of steps after which a recorded
/// magnitude counts half in delayed scales, as the policy sets it. Without it
/// magnitudes count in full until they leave the history of their format.
inline constexpr StringLiteral kAmaxHalfLifeAttr = "binade.amax_half_life";

/// The names of buffers with magnitudes of earlier steps begin with one of
/// these.
inline constexpr StringLiteral kAmaxPrefix = "amax/";
inline constexpr StringLiteral kAmaxHistoryPrefix = "amax_history/";

} // namespace mlir::binade

#endif // BINADE_IR_DELAYEDSCALES_H
