//===- RangeExpansion.h - Range expansion of groups -------------*- C++ -*-===//
//
// In formats with range expansion, an element x is stored as (|x| /
// centre)^power / scale, with its sign. This is computed with logarithms: those
// of a group's factors are computed once, so that quantizing an element takes
// one logarithm, dequantizing it one table lookup, and both one power of two.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_CASTS_RANGEEXPANSION_H
#define BINADE_LIB_CODEGEN_CASTS_RANGEEXPANSION_H

#include "LaneCodec.h"

namespace mlir::binade {

/// Number of values that `prepareExpansion` returns for the factors of a group.
inline constexpr unsigned kExpansionNumbers = 4;
LaneCodec::Shared prepareExpansion(const LaneCodec::Factors &factors);
/// Returns x as it is to be rounded. The relative error is below 5e-6 for
/// powers from 1/2 to 16, and below 1e-5 for smaller powers.
FloatLanes expandRange(FloatLanes x, ArrayRef<FloatLanes> shared);

/// Returns the expanded largest magnitude of a group, before it is divided by
/// the scale.
FloatLanes expandLargest(FloatLanes amax, FloatLanes power, FloatLanes centre);

/// Returns log2 of a magnitude that is not a subnormal f32; infinity and NaN do
/// not change.
FloatLanes findLogarithm(FloatLanes magnitude);

/// Number of values that `prepareContraction` returns for the factors of a
/// group.
inline constexpr unsigned kContractionNumbers = 3;
/// Returns what `contractRange` needs for the factors of a group.
LaneCodec::Shared prepareContraction(const LaneCodec::Factors &factors);
/// Dequantizes an element from log2 of the magnitude of its code, and a value
/// with its sign. Results below 2^-126 times the centre are 0, and those above
/// 2^127 times the centre are clamped to it.
FloatLanes contractRange(FloatLanes logarithm, FloatLanes sign,
                         ArrayRef<FloatLanes> shared);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_CASTS_RANGEEXPANSION_H
