//===- ExchangeLayout.h - Positions of exchanged tensors --------*- C++ -*-===//

#ifndef BINADE_CONTAINER_EXCHANGELAYOUT_H
#define BINADE_CONTAINER_EXCHANGELAYOUT_H

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace binade {

/// Positions of the tensors of a bucket, in elements: they follow each other at
/// multiples of `kAlignment`.
struct ExchangeLayout {
  static constexpr std::int64_t kAlignment = 16;
  /// Consecutive positions with one exponent.
  static constexpr std::int64_t kBlock = 128;
  /// Digits that a fixed-point sum keeps, of `kDigitBits` bits each.
  static constexpr std::int64_t kDigits = 3;
  static constexpr int kDigitBits = 16;
  /// The most batches whose sum cannot overflow.
  static constexpr std::int64_t kMaxBatches = 1 << 15;

  explicit ExchangeLayout(std::span<const std::int64_t> elements) {
    for (std::int64_t count : elements) {
      size = (size + kAlignment - 1) / kAlignment * kAlignment;
      positions.push_back(size);
      size += count;
    }
  }

  std::int64_t countBlocks() const { return (size + kBlock - 1) / kBlock; }
  /// Returns the I32 elements of a fixed-point sum: digits, then a number for
  /// each block.
  std::int64_t getSumSize() const { return kDigits * size + countBlocks(); }

  std::vector<std::int64_t> positions;
  std::int64_t size = 0; ///< The position after the last element.
};

/// Returns the bytes that a rank sends at once if ranks gather parts of at most
/// `largest` bytes: so few that those of all ranks fit into 4 MiB, but not so
/// few that latencies dominate.
inline std::uint64_t getGatheredPiece(std::uint64_t largest,
                                      std::uint64_t ranks) {
  constexpr std::uint64_t alignment = 64, least = 4 << 10, received = 4 << 20;
  std::uint64_t piece = std::min(largest, std::max(received / ranks, least));
  return (piece + alignment - 1) / alignment * alignment;
}

} // namespace binade

#endif // BINADE_CONTAINER_EXCHANGELAYOUT_H
