//===- Kernels.h - Encoding of exchanged gradients --------------*- C++ -*-===//
// Compiled for AVX2 and for AVX-512, with the same bits. Ranges of positions
// begin at multiples of ExchangeLayout::kBlock, except for `add`.
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_RUNTIME_EXCHANGE_KERNELS_H
#define BINADE_LIB_RUNTIME_EXCHANGE_KERNELS_H

#include "binade/Container/ExchangeLayout.h"
#include <cstddef>

namespace binade::exchange {

/// A fixed-point sum in memory: the digits of all positions, from the highest,
/// and the number of each block. The op `exchange_add` defines them.
struct Sums {
  std::int32_t *digits[ExchangeLayout::kDigits];
  std::int32_t *numbers;
  std::int64_t size; ///< Number of positions.

  Sums(std::int32_t *data, std::int64_t size)
      : digits{data, data + size, data + 2 * size}, numbers(data + 3 * size),
        size(size) {}
};

/// The number of a block with a value that is not finite.
inline constexpr std::int32_t kNotFinite = 17;
/// In such a block, the packed sum of an element is the number of NaNs times
/// 2^40, of infinities times 2^20, and of negative infinities.
inline constexpr int kCountBits = 20;

struct Kernels {
  /// Adds `count` values to the positions from `position` on.
  void (*add)(const Sums &sums, std::int64_t position, const float *values,
              std::int64_t count);
  /// Writes the sums as integers, in units of the lowest digit that the blocks'
  /// `numbers` keep, which are those of `sums` or larger.
  void (*pack)(const Sums &sums, const std::int32_t *numbers,
               std::int64_t begin, std::int64_t end, std::int64_t *packed);
  /// Rounds packed sums to f32.
  void (*decode)(const std::int64_t *packed, const std::int32_t *numbers,
                 std::int64_t begin, std::int64_t end, float *values);
  void (*toBF16)(const float *values, std::int64_t count, std::uint16_t *to);
  void (*addBF16)(const std::uint16_t *codes, std::int64_t count, float *sum);
  /// Quantizes whole blocks: codes, and a scale for each block.
  void (*toE4M3)(const float *values, std::int64_t count, std::uint8_t *codes,
                 float *scales);
  void (*addE4M3)(const std::uint8_t *codes, const float *scales,
                  std::int64_t count, float *sum);
};

extern const Kernels avx2, avx512;

/// Returns the kernels for the widest instruction set of this CPU, limited by
/// the environment variable BINADE_ISA.
const Kernels &kernels();

} // namespace binade::exchange

#endif // BINADE_LIB_RUNTIME_EXCHANGE_KERNELS_H
