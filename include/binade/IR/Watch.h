//===- Watch.h - Attributes of monitoring ops -------------------*- C++ -*-===//

#ifndef BINADE_IR_WATCH_H
#define BINADE_IR_WATCH_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mlir::binade {

/// On ops that compute statistics, and on launches of only such ops: they are
/// executed in steps whose number is a multiple of this. On results with the
/// role `statistic`: the period of the statistic.
inline constexpr StringLiteral kEveryAttr = "binade.every";

/// On an argument or op of a step: a value to watch that the step's other
/// attributes do not describe, as a dictionary with these keys. `kind` and
/// `layer`: as in requests for statistics. `scale`: the number of the argument
/// by which the value is divided. `gradient`, `after`: of a weight, the numbers
/// of the arguments with its gradient and its new value. `companion`,
/// `companion_after`: those with its master weight, remainder or compensation.
inline constexpr StringLiteral kWatchAttr = "binade.watch";

/// On a module: its policy's requests for statistics, a list of strings.
inline constexpr StringLiteral kStatisticsAttr = "binade.statistics";

/// Returns the period of `op`; none if the op belongs to the step itself.
inline std::optional<int64_t> findEvery(Operation *op) {
  if (auto every = op->getAttrOfType<IntegerAttr>(kEveryAttr))
    return every.getInt();
  return std::nullopt;
}

/// Returns the period of `op`; 1 if it belongs to the step itself.
inline int64_t getEvery(Operation *op) { return findEvery(op).value_or(1); }

} // namespace mlir::binade

#endif // BINADE_IR_WATCH_H
