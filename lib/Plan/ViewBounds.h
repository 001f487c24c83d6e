//===- ViewBounds.h - Bounds and overlap of views ---------------*- C++ -*-===//

#ifndef BINADE_PLAN_VIEWBOUNDS_H
#define BINADE_PLAN_VIEWBOUNDS_H

#include "binade/Plan/Plan.h"
#include <span>

namespace binade::plan {

/// Returns the product of `sizes`; nothing if one is negative or the product
/// overflows.
std::optional<std::int64_t> countElements(std::span<const std::int64_t> sizes);

/// Returns the largest element index of `view` with `sizes` at `strides` in all
/// iterations of loops of `counts`; nothing if a number is negative, if the sum
/// overflows, or if there are more steps than loops.
std::optional<std::int64_t> lastElement(const View &view,
                                        std::span<const std::int64_t> strides,
                                        std::span<const std::int64_t> sizes,
                                        std::span<const std::int64_t> counts);

/// Whether iterations of the loop at `depth` of `counts` access disjoint
/// elements of `view` with valid `sizes` and `strides`. The check is
/// conservative: it returns false if distances do not nest.
bool isDisjointByIteration(const View &view,
                           std::span<const std::int64_t> strides,
                           std::span<const std::int64_t> sizes,
                           std::span<const std::int64_t> counts,
                           std::size_t depth);

} // namespace binade::plan

#endif // BINADE_PLAN_VIEWBOUNDS_H
