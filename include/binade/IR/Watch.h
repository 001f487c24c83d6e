//===- Watch.h - what is looked at while a step runs ------------*- C++ -*-===//

#ifndef BINADE_IR_WATCH_H
#define BINADE_IR_WATCH_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mlir::binade {

/// Of ops that watch the step, and of launches of nothing else: they are
/// executed in the steps whose numbers are multiples of this. Of results of
/// role `statistic`: the same of the statistic.
inline constexpr StringLiteral kEveryAttr = "binade.every";

/// Of a module: the requests for statistics of its policy, texts.
inline constexpr StringLiteral kStatisticsAttr = "binade.statistics";

/// What `op` says; nothing where it belongs to the step itself.
inline std::optional<int64_t> findEvery(Operation *op) {
  if (auto every = op->getAttrOfType<IntegerAttr>(kEveryAttr))
    return every.getInt();
  return std::nullopt;
}

/// 1 for each step.
inline int64_t getEvery(Operation *op) { return findEvery(op).value_or(1); }

} // namespace mlir::binade

#endif // BINADE_IR_WATCH_H
