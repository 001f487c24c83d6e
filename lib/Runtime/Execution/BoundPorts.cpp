//===- BoundPorts.cpp - Ports in memory of the caller ---------------------===//

#include "BoundPorts.h"
#include "binade/Plan/ArenaCompaction.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

/// Returns the memory of the ports of `roles`, in order.
static std::vector<ArenaRange> findRanges(const Plan &plan,
                                          std::span<const Role> roles) {
  std::vector<ArenaRange> ranges;
  for (const Port &port : plan.ports) {
    const Buffer &buffer = plan.buffers[port.buffer];
    if (buffer.bytes && std::ranges::find(roles, port.role) != roles.end())
      ranges.push_back({buffer.offset, buffer.offset + buffer.bytes});
  }
  std::ranges::sort(ranges, {}, &ArenaRange::begin);
  return ranges;
}

BoundPorts BoundPorts::create(Plan &plan, std::span<const Role> roles) {
  BoundPorts bound;
  if (roles.empty())
    return bound;
  std::vector<ArenaRange> ranges = findRanges(plan, roles);
  std::size_t empty = ranges.size(); // Of ports without elements.
  bound.addresses.resize(empty + 1);
  bound.places.resize(plan.buffers.size());
  ArenaCompaction compaction(ranges);
  for (std::size_t index = 0; index < plan.buffers.size(); ++index) {
    Buffer &buffer = plan.buffers[index];
    auto next =
        std::ranges::upper_bound(ranges, buffer.offset, {}, &ArenaRange::begin);
    if (buffer.bytes && next != ranges.begin() &&
        buffer.offset < std::prev(next)->end) {
      auto range = static_cast<std::size_t>(next - ranges.begin()) - 1;
      bound.places[index] = {&bound.addresses[range],
                             buffer.offset - ranges[range].begin};
      continue;
    }
    buffer.offset = buffer.bytes ? compaction.move(buffer.offset) : 0;
  }
  for (const Port &port : plan.ports)
    if (plan.buffers[port.buffer].bytes == 0 &&
        std::ranges::find(roles, port.role) != roles.end())
      bound.places[port.buffer] = {&bound.addresses[empty], 0};
  plan.arenaBytes = compaction.move(plan.arenaBytes);
  return bound;
}

void BoundPorts::bind(std::uint32_t buffer, std::byte *address) {
  auto index = places[buffer].port - addresses.data();
  addresses[static_cast<std::size_t>(index)] = address;
}

std::byte *BoundPorts::get(std::uint32_t buffer) const {
  const Place &place = places[buffer];
  return *place.port ? *place.port + place.offset : nullptr;
}

std::optional<std::uint32_t> BoundPorts::findUnbound(const Plan &plan) const {
  for (std::uint32_t index = 0; index < places.size(); ++index)
    if (plan.buffers[index].bytes && contains(index) && !get(index))
      return index;
  return std::nullopt;
}
