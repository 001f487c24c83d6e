//===- ProgramExchange.cpp - Programs of a group --------------------------===//

#include "../Execution/ProgramImplementation.h"

using namespace binade;

bool Program::hasExchange() const { return !getPlan().listBuckets().empty(); }

Result<void> Program::setExchange(GroupRank rank, Transport transport) {
  if (implementation->exchange)
    return implementation->exchange->join(rank, std::move(transport));
  return Error{"binade",
               "the program exchanges no gradients; compile it with --exchange",
               ExitCode::Usage};
}

Result<void> Program::Implementation::checkExchangedMemory() const {
  for (const auto *records : plan.getLists())
    for (const plan::Record &record : *records)
      if (auto *exchanged = std::get_if<plan::Exchange>(&record.body))
        for (const plan::Operand &operand : exchanged->listOperands())
          if (bound.contains(operand.view.buffer))
            return Error{where,
                         "the gradients that ranks exchange are adjacent, so "
                         "that accumulators and the random generator cannot "
                         "be in memory of the caller",
                         ExitCode::Usage};
  return {};
}

Result<void> Program::Implementation::executeShared(RecordList list,
                                                    const FillNext &fillNext) {
  // Access to a port of a device uploads it before the next batch.
  auto getGenerator = [&] {
    const plan::Port *port = plan.findPort(plan::Role::Rng, "rng");
    return port ? tensorOf(*port).as<std::int64_t>()
                : std::span<std::int64_t>();
  };
  bool isLast = list != RecordList::Accumulation;
  if (auto done = exchange->beginBatch(isLast, getGenerator()); !done)
    return done;
  exchange->setShared(isLast);
  Result<void> done = executeRecords(list, fillNext);
  exchange->setShared(false);
  if (Result<void> failed = exchange->takeFailure(); done)
    done = std::move(failed);
  if (isLast || !done)
    exchange->endStep(!done, getGenerator());
  return done;
}
