//===- Accumulator.h - Microkernel of modelled accumulators -----*- C++ -*-===//
// Adds products as the accumulator of a matrix unit does, in floats: f32
// represents what two FP8 elements multiply to, their powers of two, and all
// multiples of the unit of an accumulator, and the conversion to an integer
// truncates.
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_RUNTIME_CONTRACTIONS_ACCUMULATOR_H
#define BINADE_LIB_RUNTIME_CONTRACTIONS_ACCUMULATOR_H

#include "binade/Plan/Plan.h"

namespace binade::accumulator {

/// Rows and columns of a panel of accumulators.
inline constexpr std::int64_t kRows = 4, kColumns = 16;

/// A panel of accumulators, and the products to add to them. Elements are
/// finite. For each product there are the values of `kRows` elements of the
/// left side and `kColumns` of the right side, and likewise their powers: two
/// to the exponent of the element, or 0 for zeros.
struct Panel {
  const float *left = nullptr, *leftPowers = nullptr;
  const float *right = nullptr, *rightPowers = nullptr;
  std::int64_t depth = 0; ///< The number of products.
  /// The number of products that were added before; a multiple of `step`.
  std::int64_t position = 0;
  plan::Accumulation accumulation;
  /// The accumulators, and the sums to which they are promoted, in rows of
  /// `pitch` elements.
  float *accumulators = nullptr, *sums = nullptr;
  std::int64_t pitch = kColumns;
};

/// Adds the products of `panel`.
void add(const Panel &panel);

} // namespace binade::accumulator

#endif // BINADE_LIB_RUNTIME_CONTRACTIONS_ACCUMULATOR_H
