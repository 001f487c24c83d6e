//===- Accumulator.cpp - Microkernel of modelled accumulators -------------===//

#include "Accumulator.h"
#include "Tile.h"
#include <algorithm>

using namespace binade;
using namespace binade::accumulator;

namespace {
using Floats = float __attribute__((ext_vector_type(kColumns)));
using Integers = std::int32_t __attribute__((ext_vector_type(kColumns)));
using Words = std::uint32_t __attribute__((ext_vector_type(kColumns)));
using Doubles = double __attribute__((ext_vector_type(kColumns)));
using Quads = std::uint64_t __attribute__((ext_vector_type(kColumns)));

constexpr std::uint32_t kExponentMask = 0x7f800000;
/// Smaller than all powers of products and accumulators, so that there is a
/// unit if all are 0.
constexpr float kTiny = 0x1p-100f;
} // namespace

#define BINADE_INLINE [[gnu::always_inline]] static inline

/// Truncates `sums`, in multiples of `units`, to significands of `bits` bits.
BINADE_INLINE void normalize(const Integers &sums, const Floats &units,
                             std::int64_t bits, Floats &to) {
  constexpr std::int64_t doubleBits = 53;
  auto exact = __builtin_convertvector(sums, Doubles);
  auto words = __builtin_bit_cast(Quads, exact) &
               ~((std::uint64_t(1) << (doubleBits - bits)) - 1);
  to = __builtin_convertvector(__builtin_bit_cast(Doubles, words), Floats) *
       units;
}

/// Adds `terms` products, from product `first` on, to the accumulators.
BINADE_INLINE void addStep(const Panel &p, std::int64_t first,
                           std::int64_t terms, Floats accumulators[kRows]) {
  const float *left = p.left + first * kRows,
              *leftPowers = p.leftPowers + first * kRows;
  auto *right = reinterpret_cast<const Floats *>(p.right) + first;
  auto *rightPowers = reinterpret_cast<const Floats *>(p.rightPowers) + first;
  Floats largest[kRows], inverse[kRows];
  Integers sums[kRows];
  for (int i = 0; i < kRows; ++i) {
    Words power = __builtin_bit_cast(Words, accumulators[i]) & kExponentMask;
    largest[i] = __builtin_elementwise_max(__builtin_bit_cast(Floats, power),
                                           Floats(kTiny));
  }
  for (std::int64_t l = 0; l < terms; ++l)
    for (int i = 0; i < kRows; ++i)
      largest[i] = __builtin_elementwise_max(
          largest[i], rightPowers[l] * leftPowers[l * kRows + i]);
  // One unit of an accumulator is the largest power / 2^(bits - 1).
  auto fraction = static_cast<std::uint32_t>(p.accumulation.bits - 1) << 23;
  for (int i = 0; i < kRows; ++i) {
    constexpr std::uint32_t twiceBias = 254u << 23;
    inverse[i] =
        __builtin_bit_cast(Floats, Words(twiceBias) + fraction -
                                       __builtin_bit_cast(Words, largest[i]));
    sums[i] = __builtin_convertvector(accumulators[i] * inverse[i], Integers);
  }
  for (std::int64_t l = 0; l < terms; ++l)
    for (int i = 0; i < kRows; ++i)
      sums[i] += __builtin_convertvector(
          right[l] * left[l * kRows + i] * inverse[i], Integers);
  for (int i = 0; i < kRows; ++i) {
    auto units = __builtin_bit_cast(
        Floats, __builtin_bit_cast(Words, largest[i]) - fraction);
    normalize(sums[i], units, p.accumulation.bits, accumulators[i]);
  }
}

BINADE_INLINE void addProducts(const Panel &p) {
  auto [bits, step, promote] = p.accumulation;
  Floats accumulators[kRows], sums[kRows];
  for (int i = 0; i < kRows; ++i) {
    accumulators[i] =
        *reinterpret_cast<const Floats *>(p.accumulators + i * p.pitch);
    sums[i] = *reinterpret_cast<const Floats *>(p.sums + i * p.pitch);
  }
  for (std::int64_t l = 0; l < p.depth; l += step) {
    std::int64_t added = p.position + l;
    if (promote != 0 && added != 0 && added % promote == 0)
      for (int i = 0; i < kRows; ++i) {
        sums[i] += accumulators[i];
        accumulators[i] = 0;
      }
    addStep(p, l, std::min(step, p.depth - l), accumulators);
  }
  for (int i = 0; i < kRows; ++i) {
    *reinterpret_cast<Floats *>(p.accumulators + i * p.pitch) = accumulators[i];
    *reinterpret_cast<Floats *>(p.sums + i * p.pitch) = sums[i];
  }
}

[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]]
static void addAvx512(const Panel &panel) {
  addProducts(panel);
}

[[gnu::target("avx2,fma")]]
static void addAvx2(const Panel &panel) {
  addProducts(panel);
}

void accumulator::add(const Panel &panel) {
  if (&tile::kernels() == &tile::avx512)
    addAvx512(panel);
  else
    addAvx2(panel);
}
