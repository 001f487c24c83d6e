//===- ShardedUpdates.cpp - Updates that ranks can shard ------------------===//

#include "ShardedUpdates.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

std::int64_t binade::countValues(const Buffer &buffer) {
  return static_cast<std::int64_t>(buffer.bytes / byteSize(buffer.dtype));
}

std::int64_t binade::findGroup(std::int64_t elements, std::int64_t values,
                               std::int64_t block) {
  for (std::int64_t group = 1; group <= block; group *= 2)
    if (block % group == 0 && (elements - 1) / group + 1 == values)
      return group;
  return 0;
}

ValueRange binade::findStateValues(const ShardedUpdate &update,
                                   std::int64_t values, std::int64_t begin,
                                   std::int64_t end) {
  if (begin >= end)
    return {};
  std::int64_t group = findGroup(update.elements, values, update.block);
  return group ? ValueRange{begin / group, (end - 1) / group + 1}
               : ValueRange{0, values};
}

ElementSharding binade::shardElements(const Plan &plan,
                                      const ShardedUpdates &updates) {
  std::vector<ElementSharding::Tensor> tensors;
  for (const ShardedUpdate &update : updates) {
    std::uint64_t bytes = 0;
    for (std::uint32_t state : update.states)
      bytes += plan.buffers[state].bytes;
    tensors.push_back({update.elements, update.block, bytes});
  }
  return ElementSharding(std::move(tensors));
}

namespace {
/// Finds the parameters and states of a plan that ranks can shard.
class UpdateFinder {
public:
  explicit UpdateFinder(const Plan &plan);

  /// Returns what can be sharded, in the order of the step.
  ShardedUpdates find();

private:
  const Buffer &bufferOf(const View &view) const {
    return plan.buffers[view.buffer];
  }
  std::optional<ShardedUpdate> read(const Launch &launch,
                                    const Segment &segment) const;
  ShardedUpdates readStep(const std::vector<Record> &records);
  void keepWhole(const View &view);
  void keepReadUpdates(const std::vector<Record> &records,
                       const ShardedUpdates &updates);
  bool isWhole(const ShardedUpdate &update) const;

  const Plan &plan;
  BuffersByPlace parameters, states; ///< The buffers of their ports.
  std::set<std::uint32_t> whole;     ///< Buffers that are not sharded.
};
} // namespace

UpdateFinder::UpdateFinder(const Plan &plan)
    : plan(plan), parameters(plan), states(plan) {
  for (const Port &port : plan.ports) {
    const Buffer &buffer = plan.buffers[port.buffer];
    if (buffer.bytes == 0)
      continue;
    if (port.role == Role::Parameter)
      parameters.add(port.buffer);
    if (port.role != Role::State)
      continue;
    states.add(port.buffer);
    // Only values that follow from the parameter are computed for a part.
    if (!std::holds_alternative<FillInit>(port.init) &&
        !std::holds_alternative<CompanionInit>(port.init))
      whole.insert(port.buffer);
  }
  auto isEqual = [](const Buffer &x, const Buffer &y) {
    return x.offset == y.offset && x.bytes == y.bytes && x.dtype == y.dtype;
  };
  for (const Buffer &other : plan.buffers)
    for (std::uint32_t state : states.listOverlapping(other))
      if (!isEqual(other, plan.buffers[state]))
        whole.insert(state);
  for (const Port &port : plan.ports)
    if (port.role != Role::State)
      keepWhole({port.buffer, 0, {}, {}});
}

/// Keeps states whole whose memory `view` may access.
void UpdateFinder::keepWhole(const View &view) {
  for (std::uint32_t state : states.listOverlapping(bufferOf(view)))
    whole.insert(state);
}

std::optional<ShardedUpdate> UpdateFinder::read(const Launch &launch,
                                                const Segment &segment) const {
  ShardedUpdate update;
  update.elements = segment.extent;
  update.block = launch.grain;
  std::set<std::uint32_t> owners;
  for (const View &view : segment.operands) {
    const Buffer &buffer = bufferOf(view);
    if (view.offset != 0 || !view.steps.empty())
      continue;
    auto find = [&](const BuffersByPlace &known) {
      std::optional<std::uint32_t> found = known.findAt(buffer);
      bool isWhole = found && plan.buffers[*found].bytes == buffer.bytes;
      return isWhole ? found : std::nullopt;
    };
    if (std::optional<std::uint32_t> parameter = find(parameters))
      owners.insert(*parameter);
    else if (std::optional<std::uint32_t> state = find(states))
      update.states.insert(*state);
  }
  if (owners.size() != 1 || update.states.empty())
    return std::nullopt;
  update.parameter = *owners.begin();
  if (countValues(plan.buffers[update.parameter]) != update.elements)
    return std::nullopt;
  for (std::uint32_t state : update.states)
    if (!findGroup(update.elements, countValues(plan.buffers[state]),
                   launch.grain))
      update.block = update.elements; // Belongs to one rank.
  return update;
}

/// Returns the updates of a list of records; states that other records access
/// stay whole.
ShardedUpdates UpdateFinder::readStep(const std::vector<Record> &records) {
  ShardedUpdates updates;
  std::set<std::uint32_t> used;
  for (std::size_t index = 0; index < records.size(); ++index) {
    auto *launch = std::get_if<Launch>(&records[index].body);
    if (!launch || !launch->updatesElements || launch->finish) {
      for (const Operand &operand : listOperands(records[index]))
        keepWhole(operand.view);
      continue;
    }
    for (const Segment &segment : launch->segments) {
      std::optional<ShardedUpdate> update = read(*launch, segment);
      bool isNew = bool(update);
      if (update) {
        isNew = used.insert(update->parameter).second;
        for (std::uint32_t state : update->states)
          isNew &= used.insert(state).second;
      }
      if (!isNew) {
        for (const View &view : segment.operands)
          keepWhole(view);
        continue;
      }
      update->record = index;
      updates.push_back(*std::move(update));
    }
  }
  return updates;
}

/// Keeps states whole whose parameter is accessed between its update and the
/// last update of the list, after which parameters are gathered.
void UpdateFinder::keepReadUpdates(const std::vector<Record> &records,
                                   const ShardedUpdates &updates) {
  std::size_t last = 0;
  std::map<std::uint32_t, const ShardedUpdate *> byParameter;
  for (const ShardedUpdate &update : updates) {
    last = std::max(last, update.record);
    byParameter[update.parameter] = &update;
  }
  for (std::size_t index = 0; !updates.empty() && index <= last; ++index)
    for (const Operand &operand : listOperands(records[index]))
      for (std::uint32_t parameter :
           parameters.listOverlapping(bufferOf(operand.view)))
        if (auto found = byParameter.find(parameter);
            found != byParameter.end() && found->second->record < index)
          whole.insert(found->second->states.begin(),
                       found->second->states.end());
}

bool UpdateFinder::isWhole(const ShardedUpdate &update) const {
  return std::ranges::any_of(update.states, [&](std::uint32_t state) {
    return whole.contains(state);
  });
}

ShardedUpdates UpdateFinder::find() {
  ShardedUpdates updates = readStep(plan.records);
  keepReadUpdates(plan.records, updates);
  if (!plan.observation.empty()) {
    ShardedUpdates observed = readStep(plan.observation);
    keepReadUpdates(plan.observation, observed);
    std::map<std::uint32_t, const ShardedUpdate *> byParameter;
    for (const ShardedUpdate &update : observed)
      byParameter[update.parameter] = &update;
    std::erase_if(updates, [&](const ShardedUpdate &update) {
      auto found = byParameter.find(update.parameter);
      return found == byParameter.end() || !(*found->second == update);
    });
  }
  for (const auto *records : {&plan.accumulation, &plan.evaluation})
    for (const Record &record : *records)
      for (const Operand &operand : listOperands(record))
        keepWhole(operand.view);
  std::erase_if(updates,
                [&](const ShardedUpdate &update) { return isWhole(update); });
  return updates;
}

ShardedUpdates binade::findShardedUpdates(const Plan &plan) {
  return UpdateFinder(plan).find();
}
