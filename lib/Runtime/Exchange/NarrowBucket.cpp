//===- NarrowBucket.cpp - Gradients in bf16 and E4M3 ----------------------===//
//
// Each rank rounds its gradients once and sends rank r the r-th part. A rank
// adds the parts that it receives in f32, in the order of the ranks, and sends
// its sum to all.
//
//===----------------------------------------------------------------------===//

#include "Bucket.h"
#include <algorithm>
#include <cstring>

using namespace binade;
using namespace binade::exchange;

namespace {
class NarrowBucket : public Bucket {
public:
  NarrowBucket(const plan::Exchange &record, const Memory &memory)
      : range(record, memory), isBF16(record.format == plan::Exchange::BF16) {}

  std::uint32_t countTransfers() const override { return 2; }
  void start(const ForEach &forEach) override {
    Bucket::start(forEach);
    range.clearGaps();
  }

protected:
  /// Elements of a part: whole blocks.
  std::int64_t getPart() const {
    constexpr std::int64_t block = ExchangeLayout::kBlock;
    std::int64_t unit = block * group.size;
    return (range.layout.size + unit - 1) / unit * block;
  }
  /// Bytes of an encoded part: bf16, or codes and then scales.
  std::uint64_t getPartBytes() const {
    auto part = static_cast<std::uint64_t>(getPart());
    return isBF16 ? 2 * part
                  : part + part / ExchangeLayout::kBlock * sizeof(float);
  }
  /// Bytes of the parts of all ranks, aligned.
  std::uint64_t getPartsBytes() const {
    return align(group.size * getPartBytes());
  }
  std::uint64_t getSumBytes() const {
    return static_cast<std::uint64_t>(getPart()) * sizeof(float);
  }
  // The buffers: encoded parts, received parts, own sum, all sums.
  std::uint64_t getBufferBytes() const override {
    return align(2 * getPartsBytes() + getSumBytes()) +
           group.size * getSumBytes();
  }
  std::byte *getReceived() const { return getBuffer(getPartsBytes()); }
  std::byte *getSum() const { return getBuffer(2 * getPartsBytes()); }
  std::byte *getAllSums() const {
    return getBuffer(align(2 * getPartsBytes() + getSumBytes()));
  }

  Transfer encode(std::uint32_t index, const ForEach &forEach) override {
    std::uint64_t bytes = getPartBytes();
    if (index == 0) {
      forEach(group.size, [&](std::int64_t part) {
        encodePart(part, getBuffer(static_cast<std::uint64_t>(part) * bytes));
      });
      return {Transfer::AllToAll, isBF16 ? DType::BF16 : DType::U8,
              getBuffer(0), getReceived(),
              group.size * bytes / (isBF16 ? 2 : 1)};
    }
    auto *sum = reinterpret_cast<float *>(getSum());
    std::fill_n(sum, getPart(), 0.0f);
    for (std::uint32_t rank = 0; rank < group.size; ++rank)
      addPart(getReceived() + rank * bytes, sum);
    return {Transfer::AllGather, DType::F32, getSum(), getAllSums(),
            static_cast<std::size_t>(getPart())};
  }

  void encodePart(std::int64_t part, std::byte *to) const {
    std::int64_t size = getPart(), first = part * size,
                 count = std::clamp<std::int64_t>(range.layout.size - first, 0,
                                                  size);
    // The last part is padded with zeros.
    std::vector<float> padded;
    const float *values = range.data + first;
    if (count < size) {
      padded.resize(static_cast<std::size_t>(size));
      std::copy_n(range.data + std::min(first, range.layout.size), count,
                  padded.begin());
      values = padded.data();
    }
    if (isBF16)
      kernels().toBF16(values, size, reinterpret_cast<std::uint16_t *>(to));
    else
      kernels().toE4M3(values, size, reinterpret_cast<std::uint8_t *>(to),
                       reinterpret_cast<float *>(to + size));
  }

  void addPart(const std::byte *from, float *sum) const {
    if (isBF16)
      kernels().addBF16(reinterpret_cast<const std::uint16_t *>(from),
                        getPart(), sum);
    else
      kernels().addE4M3(reinterpret_cast<const std::uint8_t *>(from),
                        reinterpret_cast<const float *>(from + getPart()),
                        getPart(), sum);
  }

  void decode(const ForEach &) override {
    std::memcpy(range.data, getAllSums(),
                static_cast<std::size_t>(range.layout.size) * sizeof(float));
  }

private:
  Range range;
  bool isBF16;
};
} // namespace

std::unique_ptr<Bucket>
exchange::createNarrowBucket(const plan::Exchange &record,
                             const Memory &memory) {
  return std::make_unique<NarrowBucket>(record, memory);
}
