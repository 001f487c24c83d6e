//===- WatchRounding.h - What rounding does to gradients --------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MATERIALIZE_WATCHROUNDING_H
#define BINADE_LIB_PRECISION_MATERIALIZE_WATCHROUNDING_H

#include "binade/Precision/Policy.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// The gradients of a step that are rounded to a format narrower than f32.
struct RoundedGradients {
  /// The one with the least range.
  FloatType format;
  /// Over all of them, numbers: elements that became 0, elements that were not
  /// 0 before (i64), and the largest magnitude (f32), all as scaled.
  Value vanished, nonzero, amax;
  /// Factors (f32) by which the loss scale may change: above `raisable` a
  /// gradient overflows, at `needed` or less an element that is not 0 becomes
  /// 0.
  Value raisable, needed;
  /// Whether a scale of one tensor made a gradient infinite (i1); null without
  /// such scales.
  Value overflows;
};

/// Counts what the rounding of the gradients that parameters are updated with
/// does, and returns it for each as results of role `statistic`: "vanished
/// gradient w", "nonzero gradient w", "amax gradient w", the smallest magnitude
/// before rounding, "least gradient w", and the two factors of the scale,
/// "raisable gradient w" and "needed gradient w". The op that makes such
/// a gradient computes the same bits, in f32 and then rounded. Nothing where no
/// gradient is rounded. Decisions must not be types yet.
///
/// With scales per tensor each such gradient is multiplied by its own before it
/// is rounded, and divided by it in f32 behind. These start at 1, shrink when
/// they made an infinity, and grow where too much of their tensor vanishes.
std::optional<RoundedGradients> watchRounding(func::FuncOp step,
                                              const LossScaling &scaling);

/// How far growth leaves the largest gradient below the end of `format`.
double getGrowthLimit(FloatType format);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MATERIALIZE_WATCHROUNDING_H
