//===- ShardStates.cpp - Optimizer states of one rank --------------------===//

#include "binade/Plan/ShardStates.h"
#include "ShardedUpdates.h"
#include "ViewBounds.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

ElementSharding::ElementSharding(std::vector<Tensor> list)
    : tensors(std::move(list)), starts{0}, states{0} {
  for (const Tensor &tensor : tensors) {
    starts.push_back(starts.back() + tensor.elements);
    states.push_back(states.back() + tensor.bytes);
  }
}

std::int64_t ElementSharding::findShardStart(std::int64_t rank,
                                             std::int64_t size) const {
  if (rank == size || tensors.empty())
    return getTotal();
  auto number = static_cast<std::uint64_t>(rank),
       count = static_cast<std::uint64_t>(size);
  std::uint64_t all = states.back(),
                wanted = all / count * number + all % count * number / count;
  auto index = static_cast<std::size_t>(
      std::ranges::upper_bound(states, wanted) - states.begin() - 1);
  const auto &[elements, block, bytes] = tensors[index];
  // The nearest position at which a rank may begin. All ranks round equally.
  auto offset = static_cast<std::int64_t>(
      static_cast<double>(wanted - states[index]) *
      static_cast<double>(elements) / static_cast<double>(bytes));
  std::int64_t below = offset / block * block,
               above = std::min(below + block, elements);
  return starts[index] + (offset - below <= above - offset ? below : above);
}

namespace {
class StateSharder {
public:
  StateSharder(Plan &plan, StateShard shard, ShardedUpdates updates);

  void run();

private:
  /// Elements [begin, end) of a parameter that the rank updates.
  struct Shard {
    std::int64_t begin, end;
  };
  Shard getShard(std::size_t update) const;
  std::optional<Shard> findShard(const Segment &segment) const;
  void shardLaunch(Launch &launch) const;
  bool isGathered(const Record &record) const;
  Exchange makeGather(const std::vector<Record> &records) const;
  void shardRecords(std::vector<Record> &records) const;
  void shardBuffers();

  Plan &plan;
  StateShard shard;
  ShardedUpdates updates;
  BuffersByPlace parameters;                     ///< Of the updates.
  std::map<std::uint32_t, std::size_t> updateOf; ///< By parameter.
  ElementSharding sharding;
  std::vector<std::int64_t> rankOffsets; ///< Where ranks begin; then the total.
};
} // namespace

StateSharder::StateSharder(Plan &plan, StateShard shard, ShardedUpdates found)
    : plan(plan), shard(shard), updates(std::move(found)), parameters(plan),
      sharding(shardElements(plan, updates)) {
  for (std::size_t index = 0; index < updates.size(); ++index) {
    parameters.add(updates[index].parameter);
    updateOf[updates[index].parameter] = index;
  }
  for (std::int64_t rank = 0; rank <= shard.size; ++rank)
    rankOffsets.push_back(sharding.findShardStart(rank, shard.size));
}

/// Returns the shard of a segment that updates a sharded parameter.
std::optional<StateSharder::Shard>
StateSharder::findShard(const Segment &segment) const {
  auto accesses = [&](std::uint32_t buffer) {
    return std::ranges::any_of(segment.operands, [&](const View &view) {
      const Buffer &found = plan.buffers[view.buffer];
      return found.bytes && found.offset == plan.buffers[buffer].offset;
    });
  };
  for (const View &view : segment.operands)
    if (auto parameter = parameters.findAt(plan.buffers[view.buffer])) {
      std::size_t update = updateOf.at(*parameter);
      if (std::ranges::all_of(updates[update].states, accesses))
        return getShard(update);
    }
  return std::nullopt;
}

StateSharder::Shard StateSharder::getShard(std::size_t update) const {
  auto clip = [&](std::int64_t position) {
    return std::clamp<std::int64_t>(position - sharding.getStart(update), 0,
                                    updates[update].elements);
  };
  return {clip(rankOffsets[shard.rank]), clip(rankOffsets[shard.rank + 1])};
}

void StateSharder::shardLaunch(Launch &launch) const {
  std::vector<Segment> own;
  for (Segment &segment : launch.segments) {
    if (std::optional<Shard> shard = findShard(segment)) {
      if (shard->begin == shard->end)
        continue;
      segment.first = shard->begin;
      segment.extent = shard->end;
    }
    own.push_back(std::move(segment));
  }
  launch.segments = std::move(own);
}

bool StateSharder::isGathered(const Record &record) const {
  return std::ranges::any_of(listOperands(record), [&](const Operand &operand) {
    const Buffer &buffer = plan.buffers[operand.view.buffer];
    return !parameters.listOverlapping(buffer).empty();
  });
}

Exchange StateSharder::makeGather(const std::vector<Record> &records) const {
  Exchange gather;
  gather.operation = Exchange::Gather;
  for (const Record &record : records)
    if (auto *exchange = std::get_if<Exchange>(&record.body))
      gather.bucket += exchange->action == Exchange::Start;
  for (const ShardedUpdate &update : updates) {
    gather.tensors.push_back({update.parameter, 0, {}, {}});
    gather.elements.push_back(update.elements);
  }
  gather.rankOffsets = rankOffsets;
  return gather;
}

/// Shards the updates, and gathers parameters after the last of them.
void StateSharder::shardRecords(std::vector<Record> &records) const {
  Exchange gather = makeGather(records);
  Exchange joinGather;
  joinGather.action = Exchange::Join;
  joinGather.bucket = gather.bucket + 1;
  Record join{"join gather", joinGather};
  std::size_t last = 0;
  for (std::size_t index = 0; index < records.size(); ++index)
    if (auto *launch = std::get_if<Launch>(&records[index].body))
      if (launch->updatesElements && isGathered(records[index]))
        last = index;
  std::vector<Record> sharded;
  bool isOpen = false;
  for (std::size_t index = 0; index < records.size(); ++index) {
    Record &record = records[index];
    if (isOpen && isGathered(record)) {
      sharded.push_back(join);
      isOpen = false;
    }
    auto *launch = std::get_if<Launch>(&record.body);
    if (launch && launch->updatesElements)
      shardLaunch(*launch);
    if (!launch || !launch->segments.empty())
      sharded.push_back(std::move(record));
    if (index == last) {
      sharded.push_back({"gather parameters", gather});
      isOpen = true;
    }
  }
  if (isOpen)
    sharded.push_back(join);
  records = std::move(sharded);
}

/// Shrinks the states to the rank's shard, and moves other buffers closer
/// together.
void StateSharder::shardBuffers() {
  std::map<std::uint64_t, std::pair<ValueRange, std::vector<std::int64_t>>>
      parts;
  std::vector<ArenaRange> removed;
  for (std::size_t index = 0; index < updates.size(); ++index) {
    const ShardedUpdate &update = updates[index];
    Shard elements = getShard(index);
    for (std::uint32_t state : update.states) {
      const Buffer &buffer = plan.buffers[state];
      ValueRange own = findStateValues(update, countValues(buffer),
                                       elements.begin, elements.end);
      parts[buffer.offset] = {own, buffer.shape};
      std::uint64_t kept =
          static_cast<std::uint64_t>(own.size()) * byteSize(buffer.dtype);
      if (kept < buffer.bytes)
        removed.push_back({buffer.offset + kept, getRange(buffer).end});
    }
  }
  std::ranges::sort(removed, {}, &ArenaRange::begin);
  ArenaCompaction compaction(removed);
  for (Buffer &buffer : plan.buffers) {
    auto part = parts.find(buffer.offset);
    if (buffer.bytes && part != parts.end()) {
      const auto &[own, shape] = part->second;
      buffer.shard = {shape, own.begin};
      buffer.shape = {own.size()};
      buffer.bytes =
          static_cast<std::uint64_t>(own.size()) * byteSize(buffer.dtype);
    }
    buffer.offset = buffer.bytes ? compaction.move(buffer.offset) : 0;
  }
  for (ArenaRange range : removed)
    plan.ledger[Category::State] -= range.size();
  plan.arenaBytes = compaction.move(plan.arenaBytes);
  plan.ledger.erase(Category::Unused);
  std::uint64_t used = 0;
  for (auto [category, bytes] : plan.ledger)
    used += bytes;
  plan.ledger[Category::Unused] = plan.arenaBytes - used;
}

void StateSharder::run() {
  shardRecords(plan.records);
  if (!plan.observation.empty())
    shardRecords(plan.observation);
  shardBuffers();
}

Plan binade::shardStates(Plan plan, StateShard shard) {
  if (shard.size == 1)
    return plan;
  plan.shard = shard;
  if (ShardedUpdates updates = findShardedUpdates(plan); !updates.empty())
    StateSharder(plan, shard, std::move(updates)).run();
  return plan;
}

StateBytes binade::countStateBytes(const Plan &plan) {
  StateBytes bytes;
  for (const Port &port : plan.ports) {
    if (port.role != Role::State)
      continue;
    const Buffer &buffer = plan.buffers[port.buffer];
    bytes.own += buffer.bytes;
    if (!buffer.shard) {
      bytes.whole += buffer.bytes;
      bytes.repeated += buffer.bytes;
      continue;
    }
    bytes.whole += static_cast<std::uint64_t>(
                       plan::countElements(buffer.shard->shape).value_or(0)) *
                   byteSize(buffer.dtype);
  }
  return bytes;
}
