//===- BoundPortsTest.cpp - Ports in memory of the caller -----------------===//

#include "../../../lib/Runtime/Execution/BoundPorts.h"
#include "../../../lib/Runtime/Execution/Operation.h"
#include "gtest/gtest.h"
#include <random>

using namespace binade;
using namespace binade::plan;

namespace {
void addPort(Plan &plan, Role role, std::size_t buffer) {
  Port &port = plan.ports.emplace_back();
  port.role = role;
  port.name = "p" + std::to_string(buffer);
  port.buffer = static_cast<std::uint32_t>(buffer);
}

/// Returns a plan of about `count` buffers of random sizes, one after the
/// other. Some are ports of role `parameter` or `state`; some are part of the
/// buffer before.
Plan makePlan(std::mt19937 &random, std::size_t count) {
  Plan plan;
  for (std::size_t i = 0; i < count; ++i) {
    Buffer buffer;
    buffer.name = "b" + std::to_string(i);
    buffer.bytes = random() % 3 == 0 ? random() % 5 * 4 : random() % 1000 * 4;
    buffer.shape = {static_cast<std::int64_t>(buffer.bytes / 4)};
    buffer.offset = plan.arenaBytes;
    plan.arenaBytes += (buffer.bytes + 63) / 64 * 64;
    if (unsigned kind = random() % 3; kind < 2)
      addPort(plan, kind ? Role::State : Role::Parameter, i);
    plan.buffers.push_back(buffer);
    if (buffer.bytes >= 8 && random() % 4 == 0) {
      Buffer inside = buffer;
      inside.name = "inside " + buffer.name;
      inside.offset += 4;
      inside.bytes -= 4;
      plan.buffers.push_back(inside);
      ++i;
    }
  }
  return plan;
}

} // namespace

TEST(BoundPorts, LeaveTheArena) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Plan before = makePlan(random, 1 + random() % 40), plan = before;
    const Role roles[] = {Role::Parameter};
    BoundPorts bound = BoundPorts::create(plan, roles);
    std::uint64_t removed = 0;
    for (const Port &port : plan.ports) {
      bool isBound = port.role == Role::Parameter;
      EXPECT_EQ(bound.contains(port.buffer), isBound) << port.name;
      removed += isBound ? plan.buffers[port.buffer].bytes : 0;
    }
    EXPECT_LE(plan.arenaBytes + removed,
              before.arenaBytes + (before.ports.size() + 2) * 512);
    // Buffers that remain keep their order, distance and alignment.
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
      if (bound.contains(static_cast<std::uint32_t>(i)) ||
          plan.buffers[i].bytes == 0)
        continue;
      const Buffer &now = plan.buffers[i], &then = before.buffers[i];
      EXPECT_EQ(now.offset % 256, then.offset % 256);
      EXPECT_LE(now.offset + now.bytes, plan.arenaBytes);
      if (then.name.starts_with("inside"))
        EXPECT_EQ(now.offset, plan.buffers[i - 1].offset + 4);
      else
        EXPECT_GE(now.offset, end) << now.name;
      end = std::max(end, now.offset + now.bytes);
    }
  }
}

TEST(BoundPorts, BuffersInsideAPortMoveWithIt) {
  Plan plan;
  plan.arenaBytes = 192;
  plan.buffers.resize(3);
  plan.buffers[0].bytes = plan.buffers[2].bytes = 64;
  plan.buffers[1].offset = 16;
  plan.buffers[1].bytes = 48;
  plan.buffers[2].offset = 128;
  addPort(plan, Role::Parameter, 0);
  const Role roles[] = {Role::Parameter};
  BoundPorts bound = BoundPorts::create(plan, roles);
  EXPECT_EQ(bound.findUnbound(plan), 0u);
  std::byte memory[64], other[64], arena[512];
  bound.bind(0, memory);
  EXPECT_EQ(bound.get(0), memory);
  EXPECT_EQ(bound.get(1), memory + 16);
  EXPECT_FALSE(bound.findUnbound(plan));
  Memory place{arena, plan.buffers, &bound};
  View view;
  view.buffer = 1;
  view.offset = 2;
  view.steps = {3};
  Address address = place.addressOf(view);
  EXPECT_FALSE(address.isFixed());
  const std::int64_t iteration[] = {5};
  EXPECT_EQ(address.at(iteration), memory + 16 + 8 + 60);
  bound.bind(0, other);
  EXPECT_EQ(address.at(iteration), other + 16 + 8 + 60);
  view = {};
  view.buffer = 2;
  EXPECT_EQ(place.addressOf(view).at({}), arena + plan.buffers[2].offset);
}

TEST(BoundPorts, PortsWithoutElementsNeedNoMemory) {
  Plan plan;
  plan.buffers.resize(1);
  plan.buffers[0].shape = {0};
  addPort(plan, Role::Parameter, 0);
  const Role roles[] = {Role::Parameter};
  BoundPorts bound = BoundPorts::create(plan, roles);
  EXPECT_TRUE(bound.contains(0));
  EXPECT_FALSE(bound.findUnbound(plan));
}
