//===- BatchFeed.h - Sequence of batches of a run ---------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_BATCHFEED_H
#define BINADE_LIB_RUNTIME_TRAINING_BATCHFEED_H

#include "binade/Runtime/Data.h"
#include "binade/Runtime/SampleOrder.h"

namespace binade {

/// Selects the samples of each batch and writes them to a program's batch
/// ports. On a device, the next batch is written while the current one runs.
class BatchFeed {
public:
  /// Replaces the batches from index `first` on, counted from 0, by those of
  /// `data`.
  struct Injected {
    const Data *data;
    std::uint64_t first;
  };

  BatchFeed(const Data &data, SampleOrder order, std::vector<Injected> injected)
      : data(&data), order(std::move(order)), injected(std::move(injected)) {}

  /// Skips that many batches of the run.
  void skip(std::uint64_t batches) {
    order.skip(batches);
    number = batches;
  }
  /// Advances to the next batch and fills the ports with it.
  Result<void> next();
  /// Returns the function that prefetches the batch after the current one. To
  /// be used only if another batch follows.
  FillNext getFillNext();

  /// Returns the samples of the current batch, and the data they belong to.
  std::span<const std::uint64_t> getSamples() const { return current.samples; }
  const Data &getSource() const { return *current.source; }
  /// Returns the epoch of the current batch, counted from 0.
  std::uint32_t getEpoch() const { return current.epoch; }

private:
  struct Batch {
    std::vector<std::uint64_t> samples;
    std::uint32_t epoch = 0;
    const Data *source = nullptr;
    /// The error of filling the ports, if any.
    std::optional<Error> error = {};
  };
  Batch fill();

  const Data *data;
  SampleOrder order;
  std::vector<Injected> injected;
  std::uint64_t number = 0; ///< Index of the batch to be filled next.
  Batch current;
  std::optional<Batch> ahead;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_BATCHFEED_H
