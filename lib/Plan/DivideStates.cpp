//===- DivideStates.cpp - Optimizer states of one rank --------------------===//

#include "binade/Plan/DivideStates.h"
#include "DividedUpdates.h"
#include "ViewBounds.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

ElementDivision::ElementDivision(std::vector<Tensor> list)
    : tensors(std::move(list)), starts{0}, states{0} {
  for (const Tensor &tensor : tensors) {
    starts.push_back(starts.back() + tensor.elements);
    states.push_back(states.back() + tensor.bytes);
  }
}

std::int64_t ElementDivision::findCut(std::int64_t rank,
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
class StateDivider {
public:
  StateDivider(Plan &plan, StateShard shard, DividedUpdates updates);

  void run();

private:
  /// Elements [begin, end) of a parameter that the rank updates.
  struct Share {
    std::int64_t begin, end;
  };
  Share getShare(std::size_t update) const;
  std::optional<Share> findShare(const Segment &segment) const;
  void divideLaunch(Launch &launch) const;
  bool isGathered(const Record &record) const;
  Exchange makeGather(const std::vector<Record> &records) const;
  void divideRecords(std::vector<Record> &records) const;
  void divideBuffers();

  Plan &plan;
  StateShard shard;
  DividedUpdates updates;
  BuffersByPlace parameters;                     ///< Of the updates.
  std::map<std::uint32_t, std::size_t> updateOf; ///< By parameter.
  ElementDivision division;
  std::vector<std::int64_t> cuts; ///< Where ranks begin; then the total.
};
} // namespace

StateDivider::StateDivider(Plan &plan, StateShard shard, DividedUpdates found)
    : plan(plan), shard(shard), updates(std::move(found)), parameters(plan),
      division(divideElements(plan, updates)) {
  for (std::size_t index = 0; index < updates.size(); ++index) {
    parameters.add(updates[index].parameter);
    updateOf[updates[index].parameter] = index;
  }
  for (std::int64_t rank = 0; rank <= shard.size; ++rank)
    cuts.push_back(division.findCut(rank, shard.size));
}

/// Returns the share of a segment that updates a divided parameter.
std::optional<StateDivider::Share>
StateDivider::findShare(const Segment &segment) const {
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
        return getShare(update);
    }
  return std::nullopt;
}

StateDivider::Share StateDivider::getShare(std::size_t update) const {
  auto clip = [&](std::int64_t position) {
    return std::clamp<std::int64_t>(position - division.getStart(update), 0,
                                    updates[update].elements);
  };
  return {clip(cuts[shard.rank]), clip(cuts[shard.rank + 1])};
}

void StateDivider::divideLaunch(Launch &launch) const {
  std::vector<Segment> own;
  for (Segment &segment : launch.segments) {
    if (std::optional<Share> share = findShare(segment)) {
      if (share->begin == share->end)
        continue;
      segment.first = share->begin;
      segment.extent = share->end;
    }
    own.push_back(std::move(segment));
  }
  launch.segments = std::move(own);
}

bool StateDivider::isGathered(const Record &record) const {
  return std::ranges::any_of(listOperands(record), [&](const Operand &operand) {
    const Buffer &buffer = plan.buffers[operand.view.buffer];
    return !parameters.listOverlapping(buffer).empty();
  });
}

Exchange StateDivider::makeGather(const std::vector<Record> &records) const {
  Exchange gather;
  gather.operation = Exchange::Gather;
  for (const Record &record : records)
    if (auto *exchange = std::get_if<Exchange>(&record.body))
      gather.bucket += exchange->action == Exchange::Start;
  for (const DividedUpdate &update : updates) {
    gather.tensors.push_back({update.parameter, 0, {}, {}});
    gather.elements.push_back(update.elements);
  }
  gather.cuts = cuts;
  return gather;
}

/// Divides the updates, and gathers parameters after the last of them.
void StateDivider::divideRecords(std::vector<Record> &records) const {
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
  std::vector<Record> divided;
  bool isOpen = false;
  for (std::size_t index = 0; index < records.size(); ++index) {
    Record &record = records[index];
    if (isOpen && isGathered(record)) {
      divided.push_back(join);
      isOpen = false;
    }
    auto *launch = std::get_if<Launch>(&record.body);
    if (launch && launch->updatesElements)
      divideLaunch(*launch);
    if (!launch || !launch->segments.empty())
      divided.push_back(std::move(record));
    if (index == last) {
      divided.push_back({"gather parameters", gather});
      isOpen = true;
    }
  }
  if (isOpen)
    divided.push_back(join);
  records = std::move(divided);
}

/// Shrinks the states to the rank's part, and moves other buffers closer
/// together.
void StateDivider::divideBuffers() {
  std::map<std::uint64_t, std::pair<ValueRange, std::vector<std::int64_t>>>
      parts;
  std::vector<ArenaRange> removed;
  for (std::size_t index = 0; index < updates.size(); ++index) {
    const DividedUpdate &update = updates[index];
    Share share = getShare(index);
    for (std::uint32_t state : update.states) {
      const Buffer &buffer = plan.buffers[state];
      ValueRange own =
          findStateValues(update, countValues(buffer), share.begin, share.end);
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
      buffer.part = {shape, own.begin};
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

void StateDivider::run() {
  divideRecords(plan.records);
  if (!plan.observation.empty())
    divideRecords(plan.observation);
  divideBuffers();
}

Plan binade::divideStates(Plan plan, StateShard shard) {
  if (shard.size == 1)
    return plan;
  plan.shard = shard;
  if (DividedUpdates updates = findDividedUpdates(plan); !updates.empty())
    StateDivider(plan, shard, std::move(updates)).run();
  return plan;
}

StateBytes binade::countStateBytes(const Plan &plan) {
  StateBytes bytes;
  for (const Port &port : plan.ports) {
    if (port.role != Role::State)
      continue;
    const Buffer &buffer = plan.buffers[port.buffer];
    bytes.own += buffer.bytes;
    if (!buffer.part) {
      bytes.whole += buffer.bytes;
      bytes.repeated += buffer.bytes;
      continue;
    }
    bytes.whole += static_cast<std::uint64_t>(
                       plan::countElements(buffer.part->shape).value_or(0)) *
                   byteSize(buffer.dtype);
  }
  return bytes;
}
