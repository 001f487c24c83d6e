//===- SampleOrder.cpp - Order of samples in batches ----------------------===//

#include "binade/Runtime/SampleOrder.h"
#include "binade/Container/Philox.h"
#include <cassert>
#include <numeric>

using namespace binade;

/// Distinguishes this random stream from others of the same seed: "ordr".
static constexpr std::uint32_t kOrderStream = 0x6f726472;

std::vector<std::uint64_t>
binade::shuffle(std::uint64_t count, std::uint64_t seed, std::uint32_t epoch) {
  std::vector<std::uint64_t> samples(count);
  std::iota(samples.begin(), samples.end(), std::uint64_t(0));
  for (std::uint64_t i = count; i-- > 1;) {
    auto words =
        philox({static_cast<std::uint32_t>(i),
                static_cast<std::uint32_t>(i >> 32), epoch, kOrderStream},
               philoxKey(seed));
    std::uint64_t random = std::uint64_t(words[1]) << 32 | words[0];
    auto j = static_cast<std::uint64_t>(
        static_cast<unsigned __int128>(random) * (i + 1) >> 64);
    std::swap(samples[i], samples[j]);
  }
  return samples;
}

SampleOrder::SampleOrder(Order order, std::uint64_t count, std::uint64_t batch,
                         std::uint64_t seed)
    : order(order), batch(batch), seed(seed) {
  assert(batch > 0 && batch <= count && "an epoch fills at least one batch");
  if (order == Order::Shuffle) {
    samples = shuffle(count, seed, 0);
    return;
  }
  samples.resize(count);
  std::iota(samples.begin(), samples.end(), std::uint64_t(0));
}

void SampleOrder::startEpoch(std::uint64_t number) {
  epoch = static_cast<std::uint32_t>(number);
  position = 0;
  if (order == Order::Shuffle)
    samples = shuffle(samples.size(), seed, epoch);
}

std::span<const std::uint64_t> SampleOrder::next() {
  if (samples.size() - position < batch)
    startEpoch(epoch + 1);
  std::span<const std::uint64_t> result(samples.data() + position, batch);
  position += batch;
  return result;
}

void SampleOrder::skip(std::uint64_t batches) {
  if (batches == 0)
    return;
  // The next epoch starts only with the next batch.
  std::uint64_t perEpoch = samples.size() / batch;
  startEpoch((batches - 1) / perEpoch);
  position = ((batches - 1) % perEpoch + 1) * batch;
}
