//===- SampleOrder.h - Order of samples in batches --------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_SAMPLEORDER_H
#define BINADE_RUNTIME_SAMPLEORDER_H

#include <cstdint>
#include <span>
#include <vector>

namespace binade {

enum class Order : std::uint8_t { Shuffle, Sequential };

/// Returns a random permutation of 0 to count - 1, by a Fisher-Yates shuffle
/// from the last element down. Element i is swapped with element
/// j = floor(r (i + 1) / 2^64), where r is words 0 (low) and 1 (high) of Philox
/// with key `seed` and counter (i low, i high, epoch, 0x6f726472).
std::vector<std::uint64_t> shuffle(std::uint64_t count, std::uint64_t seed,
                                   std::uint32_t epoch);

/// Assigns samples to batches. An epoch ends when fewer samples than a batch
/// remain; these are not used in that epoch.
class SampleOrder {
public:
  SampleOrder(Order order, std::uint64_t count, std::uint64_t batch,
              std::uint64_t seed);

  /// Returns the samples of the next batch; valid until the next call.
  std::span<const std::uint64_t> next();
  /// Restores the state after `batches` calls of `next`.
  void skip(std::uint64_t batches);
  /// Returns the epoch of the last batch, counted from 0.
  std::uint32_t getEpoch() const { return epoch; }

private:
  void startEpoch(std::uint64_t number);

  Order order;
  std::uint64_t batch, seed;
  std::vector<std::uint64_t> samples;
  std::uint64_t position = 0;
  std::uint32_t epoch = 0;
};

} // namespace binade

#endif // BINADE_RUNTIME_SAMPLEORDER_H
