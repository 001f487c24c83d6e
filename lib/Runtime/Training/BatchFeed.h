//===- BatchFeed.h - One batch after the other ------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_BATCHFEED_H
#define BINADE_LIB_RUNTIME_TRAINING_BATCHFEED_H

#include "binade/Runtime/Data.h"
#include "binade/Runtime/SampleOrder.h"

namespace binade {

/// Deals samples, and puts them into a program's batch ports: where a device
/// runs the program, those of the next batch while it is busy with this one.
class BatchFeed {
public:
  /// Batches of `data` from number `first` on, from 0, are another's.
  struct Injected {
    const Data *data;
    std::uint64_t first;
  };

  BatchFeed(const Data &data, SampleOrder order, std::vector<Injected> injected)
      : data(&data), order(std::move(order)), injected(std::move(injected)) {}

  /// Goes on behind that many batches.
  void skip(std::uint64_t batches) {
    order.skip(batches);
    number = batches;
  }
  /// The next run's batch.
  Result<void> next();
  /// For the run of the batch that `next` gave last, if another will follow.
  FillNext getFillNext();

  /// Of the batch that `next` gave last: its samples, and whose they are.
  std::span<const std::uint64_t> getSamples() const { return current.samples; }
  const Data &getSource() const { return *current.source; }
  /// The same, from 0.
  std::uint32_t getEpoch() const { return current.epoch; }

private:
  struct Batch {
    std::vector<std::uint64_t> samples;
    std::uint32_t epoch = 0;
    const Data *source = nullptr;
    /// What came of filling the ports.
    std::optional<Error> error = {};
  };
  Batch fill();

  const Data *data;
  SampleOrder order;
  std::vector<Injected> injected;
  std::uint64_t number = 0; ///< Of the batch to be filled.
  Batch current;
  std::optional<Batch> ahead;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_BATCHFEED_H
