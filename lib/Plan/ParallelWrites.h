//===- ParallelWrites.h - What a parallel loop writes -----------*- C++ -*-===//

#ifndef BINADE_PLAN_PARALLELWRITES_H
#define BINADE_PLAN_PARALLELWRITES_H

#include "binade/Plan/Plan.h"
#include <span>

namespace binade::plan {

/// The views that the records of a parallel loop write. Each of them moves
/// apart; this says whether all of them do together.
class ParallelWrites {
public:
  /// A legal view of `sizes` at `strides`, written by record `part` inside of
  /// loops of `counts`, of which that at `depth` is parallel.
  void add(const Buffer &buffer, const View &view,
           std::span<const std::int64_t> strides,
           std::span<const std::int64_t> sizes,
           std::span<const std::int64_t> counts, std::size_t depth,
           const std::string &part);

  /// Two records of which one may write what the other one writes in another
  /// iteration. Says so too where views interleave without touching.
  std::optional<std::pair<std::string, std::string>> findClash();

private:
  struct Write {
    /// Bytes of the arena that all iterations together cover, and the first
    /// one.
    std::uint64_t begin, end, endOfFirst;
    /// How many bytes each loop moves it, down to the parallel one.
    std::vector<std::int64_t> steps;
    /// Everything else that tells views apart.
    std::vector<std::int64_t> shape;
    std::string part;
  };
  std::vector<Write> writes;
};

} // namespace binade::plan

#endif // BINADE_PLAN_PARALLELWRITES_H
