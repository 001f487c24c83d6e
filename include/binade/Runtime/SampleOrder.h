//===- SampleOrder.h - Which samples make up which batch --------*- C++ -*-===//

#ifndef BINADE_RUNTIME_SAMPLEORDER_H
#define BINADE_RUNTIME_SAMPLEORDER_H

#include <cstdint>
#include <span>
#include <vector>

namespace binade {

enum class Order : std::uint8_t { Shuffle, Sequential };

/// The numbers 0 to count - 1 in random order: a Fisher-Yates shuffle from the
/// last place down. Place i is exchanged with place j = floor(r (i + 1) / 2^64)
/// where r is words 0 (low) and 1 (high) of Philox with key `seed` and counter
/// (i low, i high, epoch, 0x6f726472).
std::vector<std::uint64_t> shuffle(std::uint64_t count, std::uint64_t seed,
                                   std::uint32_t epoch);

/// Deals samples in batches. An epoch that cannot fill another batch ends; the
/// samples that are left over wait for the next.
class SampleOrder {
public:
  SampleOrder(Order order, std::uint64_t count, std::uint64_t batch,
              std::uint64_t seed);

  /// The samples of the next batch; valid until the next call.
  std::span<const std::uint64_t> next();
  /// Puts the order where `next` leaves it after that many calls.
  void skip(std::uint64_t batches);
  /// Of the batch that `next` gave last, from 0.
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
