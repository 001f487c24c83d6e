//===- CountShards.cpp - The bytes of shards ------------------------------===//

#include "ShardedUpdates.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

std::vector<ShardedParameter> binade::listShardedParameters(const Plan &plan) {
  std::vector<ShardedParameter> found;
  for (const ShardedUpdate &update : findShardedUpdates(plan)) {
    ShardedParameter parameter{update.parameter, update.elements, update.block,
                               0, update.record};
    for (std::uint32_t state : update.states)
      parameter.stateBytes += plan.buffers[state].bytes;
    found.push_back(parameter);
  }
  return found;
}

/// Returns the bytes of elements [begin, end) of a parameter and their states.
static ShardBytes countShard(const Plan &plan, const ShardedUpdate &update,
                             std::int64_t begin, std::int64_t end) {
  auto count = [](std::int64_t values, const Buffer &buffer) {
    return static_cast<std::uint64_t>(values) * byteSize(buffer.dtype);
  };
  ShardBytes shard{count(end - begin, plan.buffers[update.parameter]), 0};
  for (std::uint32_t state : update.states) {
    const Buffer &buffer = plan.buffers[state];
    ValueRange own = findStateValues(update, countValues(buffer), begin, end);
    shard.states += count(own.size(), buffer);
  }
  return shard;
}

ShardBytes binade::findLargestShard(const Plan &plan, std::int64_t ranks) {
  ShardedUpdates updates = findShardedUpdates(plan);
  ElementSharding sharding = shardElements(plan, updates);
  ShardBytes largest;
  std::size_t first = 0; // The update in which the shard begins.
  for (std::int64_t rank = 0, begin = 0; rank < ranks; ++rank) {
    std::int64_t end = sharding.findShardStart(rank + 1, ranks);
    ShardBytes shard;
    for (std::size_t index = first;
         index < updates.size() && sharding.getStart(index) < end; ++index) {
      std::int64_t start = sharding.getStart(index);
      auto [parameters, states] =
          countShard(plan, updates[index], std::max(begin, start) - start,
                     std::min(end, sharding.getStart(index + 1)) - start);
      shard.parameters += parameters;
      shard.states += states;
    }
    while (first < updates.size() && sharding.getStart(first + 1) <= end)
      ++first;
    largest = {std::max(largest.parameters, shard.parameters),
               std::max(largest.states, shard.states)};
    begin = end;
  }
  return largest;
}
