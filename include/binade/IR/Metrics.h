//===- Metrics.h - Names of metrics -----------------------------*- C++ -*-===//

#ifndef BINADE_IR_METRICS_H
#define BINADE_IR_METRICS_H

#include "mlir/Support/LLVM.h"

namespace mlir::binade {

/// Whether a gradient is not finite in a step that is skipped then.
inline constexpr StringLiteral kFoundInf = "found_inf";
/// The same for a step whose optimizer handles gradients that are not finite.
inline constexpr StringLiteral kAnsweredInf = "answered_inf";

/// The prefix of the name of a result of role `statistic` that is the scale of
/// a layer; the name of its node follows.
inline constexpr StringLiteral kLayerScalePrefix = "scale layer ";

} // namespace mlir::binade

#endif // BINADE_IR_METRICS_H
