//===- ParallelWrites.h - Write conflicts in parallel loops -----*- C++ -*-===//

#ifndef BINADE_PLAN_PARALLELWRITES_H
#define BINADE_PLAN_PARALLELWRITES_H

#include "binade/Plan/Plan.h"
#include <span>

namespace binade::plan {

/// The views that the records of a parallel loop write. Each view by itself is
/// disjoint in all iterations; this checks the views of different records.
class ParallelWrites {
public:
  /// Adds a valid view of `sizes` with `strides`, which record `part` writes in
  /// loops of `counts` iterations, of which the loop at `depth` is parallel.
  void add(const Buffer &buffer, const View &view,
           std::span<const std::int64_t> strides,
           std::span<const std::int64_t> sizes,
           std::span<const std::int64_t> counts, std::size_t depth,
           const std::string &part);

  /// Returns two records of which one may write elements that the other writes
  /// in another iteration. The check is conservative: it also returns records
  /// whose views interleave without overlap.
  std::optional<std::pair<std::string, std::string>> findConflict();

private:
  struct Write {
    /// The byte range of all iterations, and the end of the first iteration's.
    std::uint64_t begin, end, endOfFirst;
    /// The step in bytes of each loop, down to the parallel one.
    std::vector<std::int64_t> steps;
    /// Sizes, strides and inner steps, to compare views.
    std::vector<std::int64_t> shape;
    std::string part;
  };
  std::vector<Write> writes;
};

} // namespace binade::plan

#endif // BINADE_PLAN_PARALLELWRITES_H
