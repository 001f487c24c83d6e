//===- ArenaCompaction.cpp - Removal of ranges of an arena ----------------===//

#include "binade/Plan/ArenaCompaction.h"
#include <algorithm>
#include <cassert>

using namespace binade;

/// Returns an offset from `end` on that has the alignment of `begin`.
static std::uint64_t placeAligned(std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t alignment = 256;
  return (end + alignment - 1) / alignment * alignment + begin % alignment;
}

ArenaCompaction::ArenaCompaction(std::span<const ArenaRange> removed) {
  std::uint64_t begin = 0, end = 0;
  for (ArenaRange range : removed) {
    add(begin, range.begin, end);
    begin = range.end;
  }
  parts.push_back({begin, placeAligned(begin, end)});
}

void ArenaCompaction::add(std::uint64_t begin, std::uint64_t rangeBegin,
                          std::uint64_t &end) {
  assert(begin <= rangeBegin && "removed ranges do not overlap");
  if (begin == rangeBegin && !parts.empty())
    return;
  parts.push_back({begin, placeAligned(begin, end)});
  end = parts.back().newBegin + (rangeBegin - begin);
}

std::uint64_t ArenaCompaction::move(std::uint64_t offset) const {
  auto next = std::upper_bound(
      parts.begin(), parts.end(), offset,
      [](std::uint64_t value, const Part &part) { return value < part.begin; });
  const Part &part = *std::prev(next);
  return part.newBegin + (offset - part.begin);
}
