//===- Quotient.h - many numbers divided by one -----------------*- C++ -*-===//
//
// A division takes a processor as long as ten other operations. Where many
// numbers have one divisor, its reciprocal is found once, and each quotient is
// a product that is put right (Markstein, 1990): the quotient of IEEE 754, bit
// by bit.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CONVERSION_QUOTIENT_H
#define BINADE_LIB_CONVERSION_QUOTIENT_H

#include "Lanes.h"

namespace mlir::binade {

/// A unit in which no step is subnormal, the divisor in it and a reciprocal.
inline constexpr unsigned kQuotientNumbers = 3;

/// What `divideBy` takes of an f32 that is not negative, and normal or NaN.
SmallVector<FloatLanes, 4> prepareDivisor(FloatLanes divisor);

/// x / divisor for |x| up to 2^9 times the divisor. A quotient that is
/// subnormal may differ in its last bit, but is 0 for the same x.
FloatLanes divideBy(FloatLanes x, ArrayRef<FloatLanes> divisor);

} // namespace mlir::binade

#endif // BINADE_LIB_CONVERSION_QUOTIENT_H
