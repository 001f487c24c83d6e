//===- ShardedUpdates.h - Updates that ranks can shard ----------*- C++ -*-===//

#ifndef BINADE_LIB_PLAN_SHARDEDUPDATES_H
#define BINADE_LIB_PLAN_SHARDEDUPDATES_H

#include "binade/Plan/ArenaCompaction.h"
#include "binade/Plan/ShardStates.h"
#include <map>
#include <set>

namespace binade {

/// Returns the bytes of the arena that a buffer has.
inline ArenaRange getRange(const plan::Buffer &buffer) {
  return {buffer.offset, buffer.offset + buffer.bytes};
}

/// A parameter and its states, which a segment updates.
struct ShardedUpdate {
  std::uint32_t parameter = 0;         ///< The buffer.
  std::set<std::uint32_t> states = {}; ///< Their buffers.
  std::int64_t elements = 0;
  std::int64_t block = 1; ///< Ranks have multiples of it.
  std::size_t record = 0; ///< The index of the launch in its list.

  bool operator==(const ShardedUpdate &other) const {
    return parameter == other.parameter && states == other.states &&
           elements == other.elements && block == other.block;
  }
};
using ShardedUpdates = std::vector<ShardedUpdate>;

/// Buffers that do not overlap each other, by their place in the arena.
class BuffersByPlace {
public:
  explicit BuffersByPlace(const Plan &owner) : plan(owner) {}

  /// Adds a buffer that is not empty.
  void add(std::uint32_t buffer) {
    buffers[plan.buffers[buffer].offset] = buffer;
  }

  /// Returns the buffer that begins at the same place, if any.
  std::optional<std::uint32_t> findAt(const plan::Buffer &other) const {
    auto found = buffers.find(other.offset);
    if (!other.bytes || found == buffers.end())
      return std::nullopt;
    return found->second;
  }

  /// Lists the buffers that share memory with `other`.
  std::vector<std::uint32_t> listOverlapping(const plan::Buffer &other) const {
    std::vector<std::uint32_t> found;
    ArenaRange range = getRange(other);
    auto next = buffers.upper_bound(range.begin);
    if (next != buffers.begin() &&
        getRange(plan.buffers[std::prev(next)->second]).end > range.begin)
      --next;
    if (other.bytes)
      for (; next != buffers.end() && next->first < range.end; ++next)
        found.push_back(next->second);
    return found;
  }

private:
  const Plan &plan;
  std::map<std::uint64_t, std::uint32_t> buffers;
};

/// Returns the number of values of a buffer.
std::int64_t countValues(const plan::Buffer &buffer);

/// Returns the number of elements that share a value of a state with `values`
/// values for `elements` elements: a power of two that divides `block`, or 0.
std::int64_t findGroup(std::int64_t elements, std::int64_t values,
                       std::int64_t block);

/// Values [begin, end) of a state.
struct ValueRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Returns the values of a state with `values` values that belong to elements
/// [begin, end) of its parameter.
ValueRange findStateValues(const ShardedUpdate &update, std::int64_t values,
                           std::int64_t begin, std::int64_t end);

/// Returns the division of the elements of all updates.
ElementSharding shardElements(const Plan &plan, const ShardedUpdates &updates);

/// Returns the updates of a plan that ranks can shard, in the order of the
/// step.
ShardedUpdates findShardedUpdates(const Plan &plan);

} // namespace binade

#endif // BINADE_LIB_PLAN_SHARDEDUPDATES_H
