//===- ArenaCompaction.h - Removal of ranges of an arena --------*- C++ -*-===//

#ifndef BINADE_PLAN_ARENACOMPACTION_H
#define BINADE_PLAN_ARENACOMPACTION_H

#include <cstdint>
#include <span>
#include <vector>

namespace binade {

/// Bytes [begin, end) of an arena.
struct ArenaRange {
  std::uint64_t begin, end;

  std::uint64_t size() const { return end - begin; }
};

/// Moves the parts of an arena between removed ranges closer together. Their
/// alignment up to 256 bytes is preserved.
class ArenaCompaction {
public:
  /// `removed` are disjoint, in ascending order.
  explicit ArenaCompaction(std::span<const ArenaRange> removed);

  /// Returns the new offset of a byte that is not removed, or of the end of the
  /// arena.
  std::uint64_t move(std::uint64_t offset) const;

private:
  struct Part {
    std::uint64_t begin, newBegin;
  };
  void add(std::uint64_t begin, std::uint64_t rangeBegin, std::uint64_t &end);

  std::vector<Part> parts; ///< In the order of their offsets.
};

} // namespace binade

#endif // BINADE_PLAN_ARENACOMPACTION_H
