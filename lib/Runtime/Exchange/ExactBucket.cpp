//===- ExactBucket.cpp - Fixed-point sums of gradients --------------------===//
//
// The first transfer finds the largest number of each block, which says which
// digits of all ranks are kept. The second adds integers, in any order.
//
//===----------------------------------------------------------------------===//

#include "Bucket.h"
#include <algorithm>
#include <cstring>

using namespace binade;
using namespace binade::exchange;

/// Positions that a thread encodes at a time.
static constexpr std::int64_t kPart = 64 * ExchangeLayout::kBlock;

/// Calls `body` for parts of [0, size), which begin at blocks.
static void
forEachPart(std::int64_t size, const ForEach &forEach,
            const std::function<void(std::int64_t, std::int64_t)> &body) {
  forEach((size + kPart - 1) / kPart, [&](std::int64_t part) {
    body(part * kPart, std::min((part + 1) * kPart, size));
  });
}

static Sums getSums(const plan::Exchange &record, const Memory &memory,
                    std::int64_t size) {
  return Sums(
      reinterpret_cast<std::int32_t *>(memory.addressOf(*record.sums).at({})),
      size);
}

namespace {
/// The tensors whose values are added to the sums of a bucket.
class Summands {
public:
  Summands(const plan::Exchange &record, const Memory &memory)
      : layout(record.elements), elements(record.elements) {
    for (const plan::View &tensor : record.tensors)
      values.push_back(
          reinterpret_cast<const float *>(memory.addressOf(tensor).at({})));
  }

  void addTo(const Sums &sums, const ForEach &forEach) const {
    forEachPart(
        layout.size, forEach, [&](std::int64_t begin, std::int64_t end) {
          for (std::size_t i = 0; i < values.size(); ++i) {
            std::int64_t first = layout.positions[i],
                         from = std::max(begin, first),
                         to = std::min(end, first + elements[i]);
            if (from < to)
              kernels().add(sums, from, values[i] + (from - first), to - from);
          }
        });
  }

  ExchangeLayout layout;

private:
  std::vector<std::int64_t> elements;
  std::vector<const float *> values;
};

class ExactBucket : public Bucket {
public:
  ExactBucket(const plan::Exchange &record, const Memory &memory)
      : range(record, memory), summands(record, memory),
        sums(getSums(record, memory, range.layout.size)) {}

  std::uint32_t countTransfers() const override { return 2; }
  void start(const ForEach &forEach) override {
    Bucket::start(forEach);
    summands.addTo(sums, forEach);
  }

protected:
  std::uint64_t getNumbersBytes() const {
    return align(static_cast<std::uint64_t>(range.layout.countBlocks()) *
                 sizeof(std::int32_t));
  }
  std::uint64_t getBufferBytes() const override {
    return getNumbersBytes() +
           static_cast<std::uint64_t>(range.layout.size) * sizeof(std::int64_t);
  }
  std::int32_t *getNumbers() const {
    return reinterpret_cast<std::int32_t *>(getBuffer(0));
  }
  std::int64_t *getPacked() const {
    return reinterpret_cast<std::int64_t *>(getBuffer(getNumbersBytes()));
  }

  Transfer encode(std::uint32_t index, const ForEach &forEach) override {
    if (index == 0) {
      auto blocks = static_cast<std::size_t>(range.layout.countBlocks());
      std::copy_n(sums.numbers, blocks, getNumbers());
      return {Transfer::Max, DType::I32, getBuffer(0), getBuffer(0), blocks};
    }
    forEachPart(range.layout.size, forEach,
                [&](std::int64_t begin, std::int64_t end) {
                  kernels().pack(sums, getNumbers(), begin, end, getPacked());
                });
    auto *packed = reinterpret_cast<std::byte *>(getPacked());
    return {Transfer::Sum, DType::I64, packed, packed,
            static_cast<std::size_t>(range.layout.size)};
  }

  void decode(const ForEach &forEach) override {
    forEachPart(
        range.layout.size, forEach, [&](std::int64_t begin, std::int64_t end) {
          kernels().decode(getPacked(), getNumbers(), begin, end, range.data);
        });
  }

private:
  Range range;
  Summands summands;
  Sums sums;
};
} // namespace

std::unique_ptr<Bucket>
exchange::createExactBucket(const plan::Exchange &record,
                            const Memory &memory) {
  return std::make_unique<ExactBucket>(record, memory);
}

void exchange::addToSums(const plan::Exchange &record, const Memory &memory,
                         const ForEach &forEach) {
  Summands summands(record, memory);
  summands.addTo(getSums(record, memory, summands.layout.size), forEach);
}
