//===- GatherBucket.cpp - Parameters that other ranks updated -------------===//
//
// Each rank sends the elements that it has updated, in pieces of bounded size:
// a transfer has a piece of each rank's bytes. Ranks with fewer bytes send what
// is left in the buffer, which no rank reads.
//
//===----------------------------------------------------------------------===//

#include "Bucket.h"
#include <algorithm>
#include <cstring>

using namespace binade;
using namespace binade::exchange;

namespace {
class GatherBucket : public Bucket {
public:
  GatherBucket(const plan::Exchange &record, const Memory &memory);

  std::uint32_t countTransfers() const override {
    return static_cast<std::uint32_t>((largest + piece() - 1) / piece());
  }
  bool isGather() const override { return true; }

protected:
  std::uint64_t getBufferBytes() const override { return group.size * piece(); }
  Transfer encode(std::uint32_t index, const ForEach &forEach) override;
  void decode(const ForEach &) override { receive(countTransfers() - 1); }

private:
  using Piece = std::span<std::byte>;

  /// Returns the bytes that a rank sends at once.
  std::uint64_t piece() const { return getGatheredPiece(largest, group.size); }
  /// Calls `use` with the memory of each tensor, and its offset in the piece.
  template <typename Use>
  void forPiece(std::size_t rank, std::uint32_t index, Use use) const;
  void receive(std::uint32_t index);

  std::vector<std::vector<Piece>> parts; ///< By rank, in the step's memory.
  std::uint64_t largest = 0;             ///< Bytes of the largest part.
};
} // namespace

GatherBucket::GatherBucket(const plan::Exchange &record, const Memory &memory) {
  for (std::size_t rank = 0; rank + 1 < record.rankOffsets.size(); ++rank) {
    std::vector<Piece> &part = parts.emplace_back();
    std::uint64_t total = 0;
    std::int64_t start = 0;
    for (std::size_t index = 0; index < record.tensors.size(); ++index) {
      std::int64_t size = record.elements[index];
      auto clip = [&](std::int64_t position) {
        return static_cast<std::size_t>(
            std::clamp<std::int64_t>(position - start, 0, size));
      };
      std::size_t begin = clip(record.rankOffsets[rank]),
                  end = clip(record.rankOffsets[rank + 1]),
                  bytes = byteSize(memory.typeOf(record.tensors[index]));
      start += size;
      if (begin == end)
        continue;
      std::byte *data = memory.addressOf(record.tensors[index]).at({});
      part.push_back({data + begin * bytes, (end - begin) * bytes});
      total += part.back().size();
    }
    largest = std::max(largest, total);
  }
}

template <typename Use>
void GatherBucket::forPiece(std::size_t rank, std::uint32_t index,
                            Use use) const {
  std::uint64_t begin = index * piece(), end = begin + piece(), position = 0;
  for (Piece tensor : parts[rank]) {
    std::uint64_t from = std::max(begin, position),
                  to = std::min(end, position + tensor.size());
    if (from < to)
      use(tensor.subspan(from - position, to - from), from - begin);
    position += tensor.size();
  }
}

Transfer GatherBucket::encode(std::uint32_t index, const ForEach &) {
  if (index > 0)
    receive(index - 1);
  std::byte *own = getBuffer(group.rank * piece());
  forPiece(group.rank, index, [&](Piece memory, std::uint64_t offset) {
    std::memcpy(own + offset, memory.data(), memory.size());
  });
  return {Transfer::AllGather, DType::U8, own, getBuffer(0), piece()};
}

void GatherBucket::receive(std::uint32_t index) {
  for (std::size_t rank = 0;
       rank < std::min<std::size_t>(parts.size(), group.size); ++rank)
    if (rank != group.rank)
      forPiece(rank, index, [&](Piece memory, std::uint64_t offset) {
        std::memcpy(memory.data(), getBuffer(rank * piece() + offset),
                    memory.size());
      });
}

std::unique_ptr<Bucket>
exchange::createGatherBucket(const plan::Exchange &record,
                             const Memory &memory) {
  return std::make_unique<GatherBucket>(record, memory);
}
