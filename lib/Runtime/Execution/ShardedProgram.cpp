//===- ShardedProgram.cpp - Programs with a part of the states ------------===//

#include "ProgramImplementation.h"
#include "binade/Plan/ShardStates.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

Result<void> Program::Implementation::checkAlone(RecordList list) const {
  bool isStep = list == RecordList::Step || list == RecordList::Observation;
  if (!isStep || !plan.shard || exchange->isShared())
    return {};
  return Error{"binade",
               "the program has the states of rank " +
                   std::to_string(plan.shard->rank) + " of " +
                   std::to_string(plan.shard->size) +
                   " and cannot execute a step alone; set the exchange first",
               ExitCode::Usage};
}

void Program::Implementation::copyFrom(const Implementation &whole) {
  for (std::size_t index = 0; index < plan.ports.size(); ++index) {
    const Port &port = plan.ports[index];
    // Accumulators are 0 between steps, and outputs belong to a step.
    if (port.role >= Role::Output || port.role == Role::Accumulator)
      continue;
    std::span<std::byte> to = tensorOf(port).bytes,
                         from = whole.tensorOf(whole.plan.ports[index]).bytes;
    from = from.subspan(plan.buffers[port.buffer].getShardOffset(), to.size());
    // Memory that was never written takes no physical memory.
    if (!std::ranges::equal(from, to))
      std::ranges::copy(from, to.begin());
  }
}

Result<Program> Program::shardStates(StateShard shard) const {
  const Implementation &whole = *implementation;
  auto fail = [](std::string message) {
    return Error{"binade", std::move(message), ExitCode::Usage};
  };
  if (!hasExchange())
    return fail("the program exchanges no gradients; compile it with "
                "--exchange");
  if (whole.engine || !whole.plan.chip.empty())
    return fail("states of a program on a device cannot be sharded");
  if (whole.plan.shard)
    return fail("the states are sharded already");
  if (!whole.bound.empty())
    return fail("states in memory of the caller cannot be sharded; create the "
                "program without bound ports");
  if (shard.rank >= shard.size)
    return fail("rank " + std::to_string(shard.rank) + " of a group of " +
                std::to_string(shard.size));
  auto made = std::make_unique<Implementation>();
  made->plan = binade::shardStates(whole.plan, shard);
  made->where = whole.where;
  made->directory = whole.directory;
  made->initial = whole.initial;
  made->options = whole.options;
  made->options.notify = {}; // The remarks are those of `whole`.
  made->isa = whole.isa;
  made->kernels = whole.kernels;
  if (Result<void> done = made->prepare({}, {}); !done)
    return done.takeError();
  made->copyFrom(whole);
  return Program(std::move(made));
}
