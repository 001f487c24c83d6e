//===- Group.h - The exchanges of a program ---------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXCHANGE_GROUP_H
#define BINADE_LIB_RUNTIME_EXCHANGE_GROUP_H

#include "Bucket.h"
#include <atomic>
#include <mutex>

namespace binade::exchange {

/// The buckets of a program and the transport that exchanges them. Without a
/// transport, and in executions that are not shared, a group of one.
class Group : public StepExchange {
public:
  /// On a device, `memory` has its addresses.
  Group(const Plan &plan, const Memory &memory, std::string where,
        bool isOnDevice = false);

  /// Sets the transport; null for none.
  Result<void> join(GroupRank rank, Transport transport);
  bool isShared() const { return bool(transport); }
  /// Whether the next execution calls the transport.
  void setShared(bool isShared) { calls = isShared; }
  /// Sets the CUDA stream that the transport gets.
  void setStream(void *current) { stream = current; }

  /// Called before a batch of a step is executed, by `accumulate` or, if
  /// `isLast`, by `run`. Advances the step of the generator `rng`, which may be
  /// empty, to the rank's first batch. An error if the rank has to execute
  /// another number of batches.
  Result<void> beginBatch(bool isLast, std::span<std::int64_t> rng);
  /// Called after a step. After an error, restores the generator.
  void endStep(bool hasFailed, std::span<std::int64_t> rng);

  // Called by the records of a step.
  void start(std::uint32_t bucket, const ForEach &forEach);
  /// `advance` sets the step of the generator, if it differs from that of the
  /// rank's last batch.
  void join(const std::function<void(std::int64_t step)> &advance,
            const ForEach &forEach);
  bool hasFailed() const { return failure.has_value(); }
  Result<void> takeFailure();

  GroupRank getRank() const override { return rank; }
  std::uint32_t countBuckets() const override;
  std::uint32_t countTransfers(std::uint32_t bucket) const override;
  Result<Transfer> begin(std::uint32_t bucket, std::uint32_t index) override;
  Result<void> finish(std::uint32_t bucket) override;
  void fail(std::string message) override;

private:
  Result<void> checkStarted(std::uint32_t bucket) const;
  /// Calls the transport; returns whether it succeeded.
  bool call(ExchangeEvent event, std::uint32_t bucket);
  std::string takeMessage(int status);

  const Plan &plan;
  std::string where;
  std::vector<std::unique_ptr<Bucket>> buckets;
  GroupRank rank;
  Transport transport;
  bool calls = false;
  std::atomic<std::uint32_t> started = 0; ///< Buckets of this step.
  bool isGathering = false;               ///< Whether the last one gathers.
  std::int64_t executed = 0;              ///< Batches of this step.
  std::int64_t firstStep = 0;             ///< The generator's step before it.
  std::int64_t ownStep = 0;               ///< That of its last batch.
  void *stream = nullptr;
  std::optional<Error> failure;
  std::mutex mutex; ///< Of `message`.
  std::string message;
};

/// Creates the operation of an exchange record; `group` may be null for
/// operations that are not executed.
std::unique_ptr<Operation> createOperation(const plan::Exchange &record,
                                           const Memory &memory, Group *group);

} // namespace binade::exchange

#endif // BINADE_LIB_RUNTIME_EXCHANGE_GROUP_H
