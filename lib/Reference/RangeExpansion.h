//===- RangeExpansion.h - Range expansion of groups -------------*- C++ -*-===//
//
// The arithmetic of range expansion: the same f32 operations as in
// lib/Codegen/Casts/RangeExpansion.cpp, in the same order
// (docs/decisions/0058-range-expansion-bits.md).
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_REFERENCE_RANGEEXPANSION_H
#define BINADE_LIB_REFERENCE_RANGEEXPANSION_H

namespace mlir::binade {

/// The power and the centre of a group.
struct Expansion {
  float power = 1.0f, centre = 1.0f;

  /// Returns the power and the centre of a group with the largest magnitude
  /// `amax` and the smallest nonzero magnitude `least`. `bound` is the ratio of
  /// the largest to the smallest quantized value.
  static Expansion choose(float amax, float least, float bound);
  /// Returns the largest magnitude after expansion, before scaling.
  float expandLargest(float amax) const;
  /// Returns sign(x) (|x| / centre)^power / scale, which is then rounded.
  float expand(float x, float scale) const;
  /// Returns the element of a quantized value, from the logarithm of its
  /// magnitude and any number with its sign.
  float contract(float logarithm, float sign, float scale) const;
};

/// Returns log2 of a magnitude that is not a subnormal f32; infinity and NaN
/// stay.
float findLogarithm(float magnitude);

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_RANGEEXPANSION_H
