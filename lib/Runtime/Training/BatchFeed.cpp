//===- BatchFeed.cpp - Sequence of batches of a run -----------------------===//

#include "BatchFeed.h"
#include <numeric>

using namespace binade;

BatchFeed::Batch BatchFeed::fill() {
  std::span<const std::uint64_t> samples = order.next();
  Batch batch = {{samples.begin(), samples.end()}, order.getEpoch(), data};
  for (const Injected &other : injected) {
    std::uint64_t size = other.data->getBatch();
    if (number < other.first ||
        number >= other.first + other.data->getNumSamples() / size)
      continue;
    batch.source = other.data;
    std::iota(batch.samples.begin(), batch.samples.end(),
              (number - other.first) * size);
  }
  ++number;
  if (Result<void> filled = batch.source->fill(batch.samples); !filled)
    batch.error = filled.takeError();
  return batch;
}

Result<void> BatchFeed::next() {
  current = ahead ? *std::exchange(ahead, {}) : fill();
  return current.error ? Result<void>(*current.error) : Result<void>();
}

FillNext BatchFeed::getFillNext() {
  return [this] { ahead = fill(); };
}
