//===- RangeExpansion.h - powers that stretch groups ------------*- C++ -*-===//
//
// The arithmetic of expanded formats on numbers: the f32 operations of
// lib/Codegen/Casts/RangeExpansion.cpp, one for one
// (docs/decisions/0058-range-expansion-bits.md).
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_REFERENCE_RANGEEXPANSION_H
#define BINADE_LIB_REFERENCE_RANGEEXPANSION_H

namespace mlir::binade {

/// The power and the centre of a group.
struct Expansion {
  float power = 1.0f, centre = 1.0f;

  /// Chooses them for a group with the largest magnitude `amax` and the
  /// smallest one that is not 0, `least`. `bound` is the ratio of the largest
  /// to the smallest quantized value.
  static Expansion choose(float amax, float least, float bound);
  /// The largest magnitude after expansion, before it is scaled.
  float expandLargest(float amax) const;
  /// sign(x) (|x| / centre)^power / scale: what is rounded to a code.
  float expand(float x, float scale) const;
  /// The element that a code stands for, from the logarithm of the code's
  /// magnitude and any number with its sign.
  float contract(float logarithm, float sign, float scale) const;
};

/// log2 of a magnitude that is no subnormal f32; an infinity and NaN stay.
float findLogarithm(float magnitude);

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_RANGEEXPANSION_H
