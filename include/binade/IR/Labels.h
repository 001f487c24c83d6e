//===- Labels.h - Labels of losses ------------------------------*- C++ -*-===//

#ifndef BINADE_IR_LABELS_H
#define BINADE_IR_LABELS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <limits>

namespace mlir::binade {

/// The `ignore_index` of a loss that counts every label: the smallest integer,
/// which is not a label.
inline constexpr std::int64_t kIgnoreNothing =
    std::numeric_limits<std::int64_t>::min();

/// Builds a tensor that says for each label whether it counts: whether it is
/// not `ignoreIndex`.
Value buildLabelCounts(ImplicitLocOpBuilder &b, Value labels,
                       int64_t ignoreIndex);

} // namespace mlir::binade

#endif // BINADE_IR_LABELS_H
