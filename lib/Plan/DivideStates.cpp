//===- DivideStates.cpp - Optimizer states of one rank --------------------===//

#include "binade/Plan/DivideStates.h"
#include "ViewBounds.h"
#include "binade/Plan/ArenaCompaction.h"
#include <algorithm>
#include <set>

using namespace binade;
using namespace binade::plan;

static ArenaRange getRange(const Buffer &buffer) {
  return {buffer.offset, buffer.offset + buffer.bytes};
}

static bool overlap(const Buffer &x, const Buffer &y) {
  return x.bytes && y.bytes && x.offset < y.offset + y.bytes &&
         y.offset < x.offset + x.bytes;
}

static std::int64_t countElements(const Buffer &buffer) {
  return static_cast<std::int64_t>(buffer.bytes / byteSize(buffer.dtype));
}

/// Returns the number of elements that share a value of a state with `values`
/// values for `elements` elements: a power of two that divides `block`, or 0.
static std::int64_t findGroup(std::int64_t elements, std::int64_t values,
                              std::int64_t block) {
  for (std::int64_t group = 1; group <= block; group *= 2)
    if (block % group == 0 && (elements - 1) / group + 1 == values)
      return group;
  return 0;
}

namespace {
/// A parameter and its states, which a segment updates.
struct Unit {
  std::uint32_t parameter = 0;         ///< The buffer.
  std::set<std::uint32_t> states = {}; ///< Their buffers.
  std::int64_t elements = 0;
  std::int64_t block = 1; ///< Ranks have multiples of it.
  std::size_t record = 0; ///< The index of the launch in its list.

  bool operator==(const Unit &other) const {
    return parameter == other.parameter && states == other.states &&
           elements == other.elements && block == other.block;
  }
};
using Units = std::vector<Unit>;

/// Finds the parameters and states of a plan that ranks can divide.
class UnitFinder {
public:
  explicit UnitFinder(const Plan &plan);

  /// Returns what can be divided, in the order of the step.
  Units find();

private:
  const Buffer &bufferOf(const View &view) const {
    return plan.buffers[view.buffer];
  }
  std::optional<Unit> read(const Launch &launch, const Segment &segment) const;
  Units readStep(const std::vector<Record> &records);
  void keepWhole(const View &view);
  void keepReadUpdates(const std::vector<Record> &records, const Units &units);
  bool isWhole(const Unit &unit) const;

  const Plan &plan;
  /// The buffers of the ports of parameters and states, by their offset.
  std::map<std::uint64_t, std::uint32_t> parameters, states;
  std::set<std::uint32_t> whole; ///< Buffers that are not divided.
};
} // namespace

UnitFinder::UnitFinder(const Plan &plan) : plan(plan) {
  for (const Port &port : plan.ports) {
    const Buffer &buffer = plan.buffers[port.buffer];
    if (buffer.bytes == 0)
      continue;
    if (port.role == Role::Parameter)
      parameters[buffer.offset] = port.buffer;
    if (port.role != Role::State)
      continue;
    states[buffer.offset] = port.buffer;
    // Only values that follow from the parameter are computed for a part.
    if (!std::holds_alternative<FillInit>(port.init) &&
        !std::holds_alternative<CompanionInit>(port.init))
      whole.insert(port.buffer);
  }
  auto isEqual = [](const Buffer &x, const Buffer &y) {
    return x.offset == y.offset && x.bytes == y.bytes && x.dtype == y.dtype;
  };
  for (auto [offset, state] : states) {
    for (const Buffer &other : plan.buffers)
      if (overlap(other, plan.buffers[state]) &&
          !isEqual(other, plan.buffers[state]))
        whole.insert(state);
    for (const Port &port : plan.ports)
      if (port.role != Role::State &&
          overlap(plan.buffers[port.buffer], plan.buffers[state]))
        whole.insert(state);
  }
}

/// Keeps states whole whose memory `view` may access.
void UnitFinder::keepWhole(const View &view) {
  for (auto [offset, state] : states)
    if (overlap(bufferOf(view), plan.buffers[state]))
      whole.insert(state);
}

std::optional<Unit> UnitFinder::read(const Launch &launch,
                                     const Segment &segment) const {
  Unit unit;
  unit.elements = segment.extent;
  unit.block = launch.grain;
  std::set<std::uint32_t> owners;
  for (const View &view : segment.operands) {
    const Buffer &buffer = bufferOf(view);
    auto matches = [&](const auto &known) {
      auto found = known.find(buffer.offset);
      return found != known.end() && view.offset == 0 && view.steps.empty() &&
             plan.buffers[found->second].bytes == buffer.bytes;
    };
    if (matches(parameters))
      owners.insert(parameters.at(buffer.offset));
    else if (matches(states))
      unit.states.insert(states.at(buffer.offset));
  }
  if (owners.size() != 1 || unit.states.empty())
    return std::nullopt;
  unit.parameter = *owners.begin();
  if (countElements(plan.buffers[unit.parameter]) != unit.elements)
    return std::nullopt;
  for (std::uint32_t state : unit.states)
    if (!findGroup(unit.elements, countElements(plan.buffers[state]),
                   launch.grain))
      unit.block = unit.elements; // Belongs to one rank.
  return unit;
}

/// Returns the updates of a list of records; states that other records access
/// stay whole.
Units UnitFinder::readStep(const std::vector<Record> &records) {
  Units units;
  std::set<std::uint32_t> used;
  for (std::size_t index = 0; index < records.size(); ++index) {
    auto *launch = std::get_if<Launch>(&records[index].body);
    if (!launch || !launch->updatesElements || launch->finish) {
      for (const Operand &operand : listOperands(records[index]))
        keepWhole(operand.view);
      continue;
    }
    for (const Segment &segment : launch->segments) {
      std::optional<Unit> unit = read(*launch, segment);
      bool isNew = bool(unit);
      if (unit) {
        isNew = used.insert(unit->parameter).second;
        for (std::uint32_t state : unit->states)
          isNew &= used.insert(state).second;
      }
      if (!isNew) {
        for (const View &view : segment.operands)
          keepWhole(view);
        continue;
      }
      unit->record = index;
      units.push_back(*std::move(unit));
    }
  }
  return units;
}

/// Keeps states whole whose parameter is accessed between its update and the
/// last update of the list, after which parameters are gathered.
void UnitFinder::keepReadUpdates(const std::vector<Record> &records,
                                 const Units &units) {
  std::size_t last = 0;
  for (const Unit &unit : units)
    last = std::max(last, unit.record);
  for (const Unit &unit : units)
    for (std::size_t index = unit.record + 1; index <= last; ++index)
      for (const Operand &operand : listOperands(records[index]))
        if (overlap(bufferOf(operand.view), plan.buffers[unit.parameter]))
          whole.insert(unit.states.begin(), unit.states.end());
}

bool UnitFinder::isWhole(const Unit &unit) const {
  return std::ranges::any_of(
      unit.states, [&](std::uint32_t state) { return whole.contains(state); });
}

Units UnitFinder::find() {
  Units units = readStep(plan.records);
  keepReadUpdates(plan.records, units);
  if (!plan.observation.empty()) {
    Units observed = readStep(plan.observation);
    keepReadUpdates(plan.observation, observed);
    std::erase_if(units, [&](const Unit &unit) {
      return std::ranges::find(observed, unit) == observed.end();
    });
  }
  for (const auto *records : {&plan.accumulation, &plan.evaluation})
    for (const Record &record : *records)
      for (const Operand &operand : listOperands(record))
        keepWhole(operand.view);
  std::erase_if(units, [&](const Unit &unit) { return isWhole(unit); });
  return units;
}

//===----------------------------------------------------------------------===//
// Division
//===----------------------------------------------------------------------===//

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
  StateDivider(Plan &plan, StateShard shard, Units units);

  void run();

private:
  /// Elements [begin, end) of a parameter that the rank updates.
  struct Share {
    std::int64_t begin, end;
  };
  Share getShare(std::size_t unit) const;
  std::optional<Share> findShare(const Segment &segment) const;
  void divideLaunch(Launch &launch) const;
  bool isGathered(const Record &record) const;
  Exchange makeGather(const std::vector<Record> &records) const;
  void divideRecords(std::vector<Record> &records) const;
  void divideBuffers();

  Plan &plan;
  StateShard shard;
  Units units;
  ElementDivision division;
  std::vector<std::int64_t> cuts; ///< Where ranks begin; then the total.
};
} // namespace

static ElementDivision divideElements(const Plan &plan, const Units &units) {
  std::vector<ElementDivision::Tensor> tensors;
  for (const Unit &unit : units) {
    std::uint64_t bytes = 0;
    for (std::uint32_t state : unit.states)
      bytes += plan.buffers[state].bytes;
    tensors.push_back({unit.elements, unit.block, bytes});
  }
  return ElementDivision(std::move(tensors));
}

StateDivider::StateDivider(Plan &plan, StateShard shard, Units found)
    : plan(plan), shard(shard), units(std::move(found)),
      division(divideElements(plan, units)) {
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
  auto updates = [&](const Unit &unit) {
    return accesses(unit.parameter) &&
           std::ranges::all_of(unit.states, accesses);
  };
  auto unit = std::ranges::find_if(units, updates);
  if (unit == units.end())
    return std::nullopt;
  return getShare(static_cast<std::size_t>(unit - units.begin()));
}

StateDivider::Share StateDivider::getShare(std::size_t unit) const {
  auto clip = [&](std::int64_t position) {
    return std::clamp<std::int64_t>(position - division.getStart(unit), 0,
                                    units[unit].elements);
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
  for (const Operand &operand : listOperands(record))
    for (const Unit &unit : units)
      if (overlap(plan.buffers[operand.view.buffer],
                  plan.buffers[unit.parameter]))
        return true;
  return false;
}

Exchange StateDivider::makeGather(const std::vector<Record> &records) const {
  Exchange gather;
  gather.operation = Exchange::Gather;
  for (const Record &record : records)
    if (auto *exchange = std::get_if<Exchange>(&record.body))
      gather.bucket += exchange->action == Exchange::Start;
  for (const Unit &unit : units) {
    gather.tensors.push_back({unit.parameter, 0, {}, {}});
    gather.elements.push_back(unit.elements);
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
  std::map<std::uint64_t, std::pair<Share, std::vector<std::int64_t>>> parts;
  std::vector<ArenaRange> removed;
  for (std::size_t index = 0; index < units.size(); ++index) {
    const Unit &unit = units[index];
    Share share = getShare(index);
    for (std::uint32_t state : unit.states) {
      const Buffer &buffer = plan.buffers[state];
      std::int64_t values = countElements(buffer),
                   group = findGroup(unit.elements, values, unit.block);
      Share own{0, share.begin == share.end ? 0 : values};
      if (group && own.end > 0)
        own = {share.begin / group, (share.end - 1) / group + 1};
      parts[buffer.offset] = {own, buffer.shape};
      std::uint64_t kept = static_cast<std::uint64_t>(own.end - own.begin) *
                           byteSize(buffer.dtype);
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
      buffer.shape = {own.end - own.begin};
      buffer.bytes = static_cast<std::uint64_t>(own.end - own.begin) *
                     byteSize(buffer.dtype);
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
  if (Units units = UnitFinder(plan).find(); !units.empty())
    StateDivider(plan, shard, std::move(units)).run();
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
