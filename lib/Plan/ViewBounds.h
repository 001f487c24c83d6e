//===- ViewBounds.h - How far a view reaches --------------------*- C++ -*-===//

#ifndef BINADE_PLAN_VIEWBOUNDS_H
#define BINADE_PLAN_VIEWBOUNDS_H

#include "binade/Plan/Plan.h"
#include <span>

namespace binade::plan {

/// Product of `sizes`; nothing when one is negative or the product overflows.
std::optional<std::int64_t> countElements(std::span<const std::int64_t> sizes);

/// The largest element index of `view` with `sizes` at `strides`, in any
/// iteration of loops of `counts`; nothing when a number
/// is negative or the sum overflows, or when there are more steps than loops.
std::optional<std::int64_t> lastElement(const View &view,
                                        std::span<const std::int64_t> strides,
                                        std::span<const std::int64_t> sizes,
                                        std::span<const std::int64_t> counts);

/// Whether no element of `view` with `sizes` at `strides`, all of which are
/// legal, belongs to two iterations of the loop at `depth` among those of
/// `counts`. Says no where distances do not nest, even if they happen to miss
/// each other.
bool movesApart(const View &view, std::span<const std::int64_t> strides,
                std::span<const std::int64_t> sizes,
                std::span<const std::int64_t> counts, std::size_t depth);

} // namespace binade::plan

#endif // BINADE_PLAN_VIEWBOUNDS_H
