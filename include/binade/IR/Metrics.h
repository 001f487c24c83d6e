//===- Metrics.h - names of metrics that stations read ----------*- C++ -*-===//

#ifndef BINADE_IR_METRICS_H
#define BINADE_IR_METRICS_H

#include "mlir/Support/LLVM.h"

namespace mlir::binade {

/// Whether a gradient is not finite, of a step that then changes nothing.
inline constexpr StringLiteral kFoundInf = "found_inf";
/// The same of a step whose optimizer answers to it.
inline constexpr StringLiteral kAnsweredInf = "answered_inf";

/// The prefix of a result of role `statistic` that is the scale of a layer; the
/// name of its node follows.
inline constexpr StringLiteral kLayerScalePrefix = "scale layer ";

} // namespace mlir::binade

#endif // BINADE_IR_METRICS_H
