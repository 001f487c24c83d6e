//===- Labels.h - labels of losses ------------------------------*- C++ -*-===//

#ifndef BINADE_IR_LABELS_H
#define BINADE_IR_LABELS_H

#include <cstdint>
#include <limits>

namespace mlir::binade {

/// The `ignore_index` of a loss that counts every label: the least integer,
/// which no label has.
inline constexpr std::int64_t kIgnoreNothing =
    std::numeric_limits<std::int64_t>::min();

} // namespace mlir::binade

#endif // BINADE_IR_LABELS_H
