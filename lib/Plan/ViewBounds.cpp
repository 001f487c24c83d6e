//===- ViewBounds.cpp - Bounds and overlap of views -----------------------===//

#include "ViewBounds.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

std::optional<std::int64_t>
plan::countElements(std::span<const std::int64_t> sizes) {
  // A size of 0 must not hide the overflow of the other sizes.
  std::int64_t product = 1;
  bool empty = false;
  for (std::int64_t size : sizes) {
    if (size < 0)
      return std::nullopt;
    if (size == 0)
      empty = true;
    else if (__builtin_mul_overflow(product, size, &product))
      return std::nullopt;
  }
  return empty ? 0 : product;
}

/// Adds (count - 1) * distance to `last`; returns false if `distance` is
/// negative or the sum overflows.
static bool extend(std::int64_t &last, std::int64_t count,
                   std::int64_t distance) {
  std::int64_t length;
  return distance >= 0 &&
         !__builtin_mul_overflow(count - 1, distance, &length) &&
         !__builtin_add_overflow(last, length, &last);
}

std::optional<std::int64_t>
plan::lastElement(const View &view, std::span<const std::int64_t> strides,
                  std::span<const std::int64_t> sizes,
                  std::span<const std::int64_t> counts) {
  if (view.offset < 0 || view.steps.size() > counts.size())
    return std::nullopt;
  std::int64_t last = view.offset;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (!extend(last, sizes[d], strides[d]))
      return std::nullopt;
  for (std::size_t d = 0; d < view.steps.size(); ++d)
    if (!extend(last, counts[d], view.steps[d]))
      return std::nullopt;
  return last;
}

bool plan::isDisjointByIteration(const View &view,
                                 std::span<const std::int64_t> strides,
                                 std::span<const std::int64_t> sizes,
                                 std::span<const std::int64_t> counts,
                                 std::size_t depth) {
  if (counts[depth] == 1)
    return true;
  struct Axis {
    std::int64_t distance, count;
    std::int64_t reach() const { return (count - 1) * distance; }
  };
  auto stepOf = [&](std::size_t loop) {
    return loop < view.steps.size() ? view.steps[loop] : 0;
  };
  std::vector<Axis> axes; // The elements of one iteration.
  for (std::size_t d = 0; d < sizes.size(); ++d)
    axes.push_back({strides[d], sizes[d]});
  for (std::size_t d = depth + 1; d < counts.size(); ++d)
    axes.push_back({stepOf(d), counts[d]});
  std::erase_if(axes, [](const Axis &axis) { return axis.count == 1; });
  std::sort(axes.begin(), axes.end(), [](const Axis &a, const Axis &b) {
    return a.distance < b.distance;
  });
  // The axes with shorter distances have to fit into the loop's step, and
  // longer distances have to exceed the range of all iterations.
  const Axis loop{stepOf(depth), counts[depth]};
  std::int64_t reach = 0;
  auto axis = axes.begin();
  for (; axis != axes.end() && axis->distance <= loop.distance; ++axis)
    reach += axis->reach();
  if (loop.distance <= reach)
    return false;
  for (reach += loop.reach(); axis != axes.end(); ++axis) {
    if (axis->distance <= reach)
      return false;
    reach += axis->reach();
  }
  return true;
}
