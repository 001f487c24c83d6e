//===- Quotient.h - Division of many values by one divisor ------*- C++ -*-===//
//
// A division takes about as long as ten other operations. If many values have
// the same divisor, its reciprocal is computed once, and each quotient is a
// multiplication with a correction (Markstein, 1990), which gives the quotient
// of IEEE 754 bit by bit. A subnormal quotient may differ in its last bit; it
// is 0 for the same operands, and no quantized format distinguishes it from 0.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_CASTS_QUOTIENT_H
#define BINADE_LIB_CODEGEN_CASTS_QUOTIENT_H

#include "../Lanes.h"

namespace mlir::binade {

/// Number of values that `prepareDivisor` returns: a scale with which no step
/// is subnormal, the scaled divisor, and its reciprocal.
inline constexpr unsigned kQuotientNumbers = 3;

/// Returns what `divideBy` needs for `divisor`, a non-negative f32 that is
/// normal or NaN.
SmallVector<FloatLanes, 4> prepareDivisor(FloatLanes divisor);

/// The same for a divisor in [2^-64, 2^125], infinite or NaN, and for |x| of at
/// most 2^16 times the divisor. No scale is needed: what is then subnormal is
/// too small for the correction to matter.
SmallVector<FloatLanes, 4> prepareBoundedDivisor(FloatLanes divisor);

/// Returns x / divisor for |x| up to 2^16 times the divisor. For a larger |x|,
/// the result is the quotient or, if a step overflows, not finite.
FloatLanes divideBy(FloatLanes x, ArrayRef<FloatLanes> divisor);

/// Returns x / divisor, correctly rounded, for an x of at least 2^-64 or NaN,
/// and a divisor in [1, 2^32] of at most 16 significant bits: no quotient is
/// then so close to a tie that the correction misses it.
FloatLanes divideByConstant(FloatLanes x, float divisor);

/// Whether `prepareDivisor` accepts `number`, a scalar.
BoolLanes isDivisor(FloatLanes number);

/// Whether `divideRoot` accepts `number`, a scalar.
BoolLanes isDivisorOfRoots(FloatLanes number);

/// Returns x / divisor, correctly rounded. x is a square root that is 0, in
/// [2^-75, 2^64] or not finite; `opposite` is -1 / divisor. No step is
/// subnormal. If x is not finite, neither is the result.
FloatLanes divideRoot(FloatLanes x, FloatLanes divisor, FloatLanes opposite);

/// Whether all lanes of a quotient are finite. `isFiniteRoot` is for quotients
/// of square roots, which are not negative; it may also be false if their sum
/// overflows.
BoolLanes isFinite(FloatLanes quotient);
BoolLanes isFiniteRoot(FloatLanes quotient);

/// Returns x / divisor for all operands: `quotient` if `holds` is true,
/// otherwise the result of a division.
FloatLanes divideElsewhere(FloatLanes x, FloatLanes divisor,
                           FloatLanes quotient, BoolLanes holds);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_CASTS_QUOTIENT_H
