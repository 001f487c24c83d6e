//===- Group.cpp - The exchanges of a program -----------------------------===//

#include "Group.h"
#include <utility>

using namespace binade;
using namespace binade::exchange;

Group::Group(const Plan &plan, const Memory &memory, std::string where,
             bool isOnDevice)
    : plan(plan), where(std::move(where)) {
  for (const plan::Exchange *record : plan.listBuckets())
    buckets.push_back(isOnDevice ? Bucket::createOnDevice(*record, memory)
                                 : Bucket::create(*record, memory));
}

Result<void> Group::join(GroupRank wanted, Transport to) {
  auto fail = [](std::string message) {
    return Error{"binade", std::move(message), ExitCode::Usage};
  };
  if (buckets.empty())
    return fail("the program exchanges no gradients; compile it with "
                "--exchange");
  if (executed > 0)
    return fail("a step has begun; the group changes between steps only");
  if (wanted.rank >= wanted.size)
    return fail("rank " + std::to_string(wanted.rank) + " of a group of " +
                std::to_string(wanted.size));
  if (wanted.size > plan.batches)
    return fail("a step has " + std::to_string(plan.batches) +
                " batches, which " + std::to_string(wanted.size) +
                " ranks cannot divide among them; compile it with a larger "
                "--accumulate");
  if (const auto &shard = plan.shard;
      shard && (wanted.rank != shard->rank || wanted.size != shard->size))
    return fail(
        "cannot join as rank " + std::to_string(wanted.rank) + " of " +
        std::to_string(wanted.size) + ": the program has the states of rank " +
        std::to_string(shard->rank) + " of " + std::to_string(shard->size));
  for (const std::unique_ptr<Bucket> &bucket : buckets)
    if (Result<void> done = bucket->allocate(wanted, where); !done)
      return done;
  rank = wanted;
  transport = std::move(to);
  return {};
}

Result<void> Group::beginBatch(bool isLast, std::span<std::int64_t> rng) {
  std::int64_t first = rank.findFirst(plan.batches),
               own = rank.findFirst(plan.batches, /*after=*/true) - first;
  bool isInOrder = isLast ? executed == own - 1 : executed < own - 1;
  if (!isInOrder)
    return Error{"binade",
                 "rank " + std::to_string(rank.rank) + " of " +
                     std::to_string(rank.size) + " executes " +
                     std::to_string(own) + " of the " +
                     std::to_string(plan.batches) +
                     " batches of a step: call accumulate for all but the last "
                     "of them, and run for the last; " +
                     (isLast ? "run" : "accumulate") + " was called after " +
                     std::to_string(executed),
                 ExitCode::Usage};
  if (executed++ == 0 && !rng.empty()) {
    firstStep = rng[1];
    rng[1] += first;
  }
  ownStep = rng.empty() ? 0 : rng[1];
  return {};
}

void Group::endStep(bool hasFailed, std::span<std::int64_t> rng) {
  if (hasFailed && executed > 0 && !rng.empty())
    rng[1] = firstStep;
  executed = 0;
}

std::string Group::takeMessage(int status) {
  std::lock_guard lock(mutex);
  std::string text = std::exchange(message, {});
  return text.empty() ? "status " + std::to_string(status) : text;
}

void Group::fail(std::string text) {
  std::lock_guard lock(mutex);
  message = std::move(text);
}

bool Group::call(ExchangeEvent event, std::uint32_t bucket) {
  int status = transport(*this, event, bucket, stream);
  if (status == 0)
    return true;
  std::string what =
      event == ExchangeEvent::Start
          ? "the exchange of bucket " + std::to_string(bucket) + " of " +
                std::to_string(buckets.size())
          : "the exchange of " +
                std::string(isGathering ? "parameters" : "gradients");
  if (!failure)
    failure =
        Error{where, what + " failed: " + takeMessage(status), ExitCode::Peer}
            .withNote(isGathering
                          ? "some parameters are updated and some are not: "
                            "continue from a checkpoint"
                          : "the step has changed no parameter and no state");
  return false;
}

void Group::start(std::uint32_t bucket, const ForEach &forEach) {
  // Executions that are not shared do not wait for other ranks.
  GroupRank own = calls ? rank : GroupRank();
  if (Result<void> done = buckets[bucket]->allocate(own, where); !done) {
    failure = done.takeError();
    return;
  }
  buckets[bucket]->start(forEach);
  isGathering = buckets[bucket]->isGather();
  started = bucket + 1;
  if (!calls || call(ExchangeEvent::Start, bucket))
    return;
  // The transport may have threads to wait for.
  call(ExchangeEvent::Join, countBuckets());
}

void Group::join(const std::function<void(std::int64_t step)> &advance,
                 const ForEach &forEach) {
  if (calls && !call(ExchangeEvent::Join, countBuckets()))
    return;
  for (std::uint32_t index = 0; index < started; ++index) {
    Bucket &bucket = *buckets[index];
    if (bucket.isFinished())
      continue;
    if (calls && rank.size > 1) {
      failure = Error{where,
                      "bucket " + std::to_string(index) + " of " +
                          std::to_string(buckets.size()) +
                          " was not exchanged: its transport did not finish it",
                      ExitCode::Usage};
      return;
    }
    bucket.finishAlone(forEach);
  }
  started = 0;
  std::int64_t others =
      plan.batches - rank.findFirst(plan.batches, /*after=*/true);
  if (calls && others > 0)
    advance(ownStep + others);
}

Result<void> Group::takeFailure() {
  started = 0;
  if (!failure)
    return {};
  Error error = std::move(*failure);
  failure.reset();
  return error;
}

Result<void> Group::checkStarted(std::uint32_t bucket) const {
  if (bucket < started)
    return {};
  return Error{"binade",
               "bucket " + std::to_string(bucket) + " of " +
                   std::to_string(buckets.size()) + " has not been started",
               ExitCode::Usage};
}

std::uint32_t Group::countBuckets() const {
  return static_cast<std::uint32_t>(buckets.size());
}

std::uint32_t Group::countTransfers(std::uint32_t bucket) const {
  return bucket < buckets.size() ? buckets[bucket]->countTransfers() : 0;
}

Result<Transfer> Group::begin(std::uint32_t bucket, std::uint32_t index) {
  if (Result<void> ok = checkStarted(bucket); !ok)
    return ok.takeError();
  return buckets[bucket]->begin(index);
}

Result<void> Group::finish(std::uint32_t bucket) {
  if (Result<void> ok = checkStarted(bucket); !ok)
    return ok;
  return buckets[bucket]->finish();
}

namespace {
class ExchangeOperation : public Operation {
public:
  ExchangeOperation(const plan::Exchange &record, const Memory &memory,
                    Group *group)
      : record(record), memory(memory), group(group) {}

  void run(const ExecutionContext &context) override {
    ForEach forEach = [&](std::int64_t count,
                          const std::function<void(std::int64_t)> &body) {
      context.team->parallelFor(
          context.threads, count,
          [&](std::int64_t index, unsigned) { body(index); });
    };
    switch (record.action) {
    case plan::Exchange::Start:
      return group->start(record.bucket, forEach);
    case plan::Exchange::Join:
      return group->join([&](std::int64_t step) { setCounter(step); }, forEach);
    case plan::Exchange::Add:
      return addToSums(record, memory, forEach);
    }
  }

private:
  void setCounter(std::int64_t step) const {
    if (record.counter)
      reinterpret_cast<std::int64_t *>(
          memory.addressOf(*record.counter).at({}))[1] = step;
  }

  const plan::Exchange &record;
  Memory memory;
  Group *group;
};
} // namespace

std::unique_ptr<Operation>
exchange::createOperation(const plan::Exchange &record, const Memory &memory,
                          Group *group) {
  return std::make_unique<ExchangeOperation>(record, memory, group);
}
