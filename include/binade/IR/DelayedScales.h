//===- DelayedScales.h - Scales that follow from earlier steps --*- C++ -*-===//

#ifndef BINADE_IR_DELAYEDSCALES_H
#define BINADE_IR_DELAYEDSCALES_H

#include "mlir/Support/LLVM.h"

namespace mlir::binade {

/// Of a module, what its policy says: the steps in which the magnitudes that
/// delayed scales follow from halve, an integer. Absent, each counts in full
/// until the history of its format forgets it.
inline constexpr StringLiteral kAmaxHalfLifeAttr = "binade.amax_half_life";

} // namespace mlir::binade

#endif // BINADE_IR_DELAYEDSCALES_H
