//===- WatchRounding.h - Counts of gradients that round to 0 ----*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MATERIALIZE_WATCHROUNDING_H
#define BINADE_LIB_PRECISION_MATERIALIZE_WATCHROUNDING_H

#include "binade/Precision/Policy.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// The total over all gradients of a step that are rounded to a narrower format
/// than f32.
struct RoundedGradients {
  /// The format with the smallest range.
  FloatType format;
  /// Scalars over all gradients: elements that became 0, elements that were not
  /// 0 before (i64), and the largest magnitude (f32), all after scaling.
  Value vanished, nonzero, amax;
  /// Factors (f32) by which the loss scale may change: above `raisable` a
  /// gradient overflows; at `needed` or less, a nonzero element becomes 0.
  Value raisable, needed;
  /// Whether the scale of one tensor made a gradient infinite (i1); null
  /// without such scales.
  Value overflows;
};

/// Counts how many elements of the gradients of updated parameters round to 0.
/// Returns the totals, and adds results with the role `statistic` for each
/// gradient w: "vanished gradient w", "nonzero gradient w", "amax gradient w",
/// "least gradient w", which is the smallest magnitude before rounding, and the
/// two factors "raisable gradient w" and "needed gradient w". The producer of
/// such a gradient computes the same bits, in f32 with a cast after it. Returns
/// nothing if no gradient is rounded. Runs before decisions become types.
///
/// With scales per tensor, each such gradient is multiplied by its scale before
/// it is rounded, and divided by it in f32 afterwards. These scales start at 1,
/// shrink after an overflow that they cause, and grow if too large a fraction
/// of the tensor rounds to 0.
std::optional<RoundedGradients> watchRounding(func::FuncOp step,
                                              const LossScaling &scaling);

/// Returns the largest magnitude of a gradient at which the scale may still
/// grow.
double getGrowthLimit(FloatType format);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MATERIALIZE_WATCHROUNDING_H
