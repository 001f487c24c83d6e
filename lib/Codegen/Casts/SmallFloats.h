//===- SmallFloats.h - Casts of floats of at most 8 bits --------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_CASTS_SMALLFLOATS_H
#define BINADE_LIB_CODEGEN_CASTS_SMALLFLOATS_H

#include "../Lanes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::binade {

/// Whether `type` has sign, exponent and fraction in at most 8 bits.
bool isSmallFloat(Type type);

/// Whether some targets have instructions that convert between f32 and `type`.
bool hasInstructions(FloatType type);

/// Rounds f32 to `format`, to nearest even, and returns the bit patterns in the
/// low bits of i8. Values that are too large become infinity, NaN in formats
/// without infinity, or the largest value in formats without NaN; with
/// `saturate` they become the largest value of their sign in all formats. NaN
/// has all bits set but the sign, or is the pattern of -0 in formats without
/// it; in formats without NaN it becomes the largest value.
///
/// If some targets have instructions for `format`, this emits a cast, after a
/// clamp with `saturate`; `binade-expand-float-casts` expands it for other
/// targets.
IntLanes encodeSmall(FloatLanes x, FloatType format, bool saturate = false);
/// Does the same by integer arithmetic.
IntLanes expandEncode(FloatLanes x, FloatType format, bool saturate);

/// Returns the f32 of each bit pattern in i8; by a cast if some targets have
/// instructions for `format`.
FloatLanes decodeSmall(IntLanes code, FloatType format);
/// Does the same by integer arithmetic.
FloatLanes expandDecode(IntLanes code, FloatType format);

/// Returns the power of two whose biased exponent is in an i32, as f8E8M0FNU
/// defines it: 2^-127 for 0, NaN for 255.
FloatLanes decodePower(IntLanes field);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_CASTS_SMALLFLOATS_H
