//===- RangeExpansion.h - powers that stretch groups ------------*- C++ -*-===//
//
// Codes of expanded formats are of (|x| / centre)^power / scale. All of it is
// done with logarithms: those of what a group shares are found once, so that an
// element takes one logarithm or, decoded, a look at a table, and one power of
// two.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_CASTS_RANGEEXPANSION_H
#define BINADE_LIB_CODEGEN_CASTS_RANGEEXPANSION_H

#include "LaneCodec.h"

namespace mlir::binade {

/// What `expandRange` takes, of the factors of a group.
inline constexpr unsigned kExpansionNumbers = 4;
LaneCodec::Shared prepareExpansion(const LaneCodec::Factors &factors);
/// x as it is to be rounded. Its relative error is below 5e-6 for powers from
/// 1/2 to 16, and below 1e-5 for less.
FloatLanes expandRange(FloatLanes x, ArrayRef<FloatLanes> shared);

/// What the largest magnitude of a group becomes, before it is scaled.
FloatLanes expandLargest(FloatLanes amax, FloatLanes power, FloatLanes centre);

/// log2 of a magnitude that is no subnormal f32; an infinity and NaN stay.
FloatLanes findLogarithm(FloatLanes magnitude);

/// What `contractRange` takes.
LaneCodec::Shared prepareContraction(const LaneCodec::Factors &factors);
/// The number behind a code, from the logarithm to base two of the magnitude
/// that it has, and any number of its sign. What is less than 2^-126 of the
/// centre is 0, what is more than 2^127 of it is no more.
FloatLanes contractRange(FloatLanes logarithm, FloatLanes sign,
                         ArrayRef<FloatLanes> shared);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_CASTS_RANGEEXPANSION_H
