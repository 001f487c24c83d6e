//===- BatchFeed.cpp - One batch after the other --------------------------===//

#include "BatchFeed.h"

using namespace binade;

BatchFeed::Batch BatchFeed::fill() {
  std::span<const std::uint64_t> samples = order.next();
  Batch batch = {{samples.begin(), samples.end()}, order.getEpoch()};
  if (Result<void> filled = data->fill(samples); !filled)
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
