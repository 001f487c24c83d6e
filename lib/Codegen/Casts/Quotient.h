//===- Quotient.h - many numbers divided by one -----------------*- C++ -*-===//
//
// A division takes a processor as long as ten other operations. Where many
// numbers have one divisor, its reciprocal is found once, and each quotient is
// a product that is put right (Markstein, 1990): the quotient of IEEE 754, bit
// by bit. One that is subnormal may differ in its last bit; it is 0 for the
// same numbers, and no code tells it from 0.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_CASTS_QUOTIENT_H
#define BINADE_LIB_CODEGEN_CASTS_QUOTIENT_H

#include "../Lanes.h"

namespace mlir::binade {

/// A unit in which no step is subnormal, the divisor in it and a reciprocal.
inline constexpr unsigned kQuotientNumbers = 3;

/// What `divideBy` takes of an f32 that is not negative, and normal or NaN.
SmallVector<FloatLanes, 4> prepareDivisor(FloatLanes divisor);

/// x / divisor for |x| up to 2^16 times the divisor. Of a larger x it is that
/// or, where a step overflows, not finite.
FloatLanes divideBy(FloatLanes x, ArrayRef<FloatLanes> divisor);

/// Whether `prepareDivisor` takes a number, which is no vector.
BoolLanes isDivisor(FloatLanes number);

/// Whether `divideRoot` takes a divisor, which is no vector.
BoolLanes isDivisorOfRoots(FloatLanes number);

/// x / divisor for a square root x, which is 0, from 2^-75 to 2^64 or not
/// finite, with `opposite` -1 / divisor: exact in all bits of an f32, as no
/// step is subnormal. Of what is not finite it is not finite either.
FloatLanes divideRoot(FloatLanes x, FloatLanes divisor, FloatLanes opposite);

/// Whether all lanes of a quotient are finite; of roots, which are not
/// negative, and whose sum may be infinite sooner.
BoolLanes isFinite(FloatLanes quotient);
BoolLanes isFiniteRoot(FloatLanes quotient);

/// x / divisor for all numbers: `quotient` where it `holds`, a division
/// elsewhere.
FloatLanes divideElsewhere(FloatLanes x, FloatLanes divisor,
                           FloatLanes quotient, BoolLanes holds);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_CASTS_QUOTIENT_H
