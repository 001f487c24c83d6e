//===- SmallFloats.h - floats of up to 8 bits as codes ----------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_CASTS_SMALLFLOATS_H
#define BINADE_LIB_CODEGEN_CASTS_SMALLFLOATS_H

#include "../Lanes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::binade {

/// Whether `type` has sign, exponent and fraction in 8 bits or fewer.
bool isSmallFloat(Type type);

/// Whether some targets convert between f32 and `type` by an instruction.
bool hasInstructions(FloatType type);

/// The code of f32 numbers in the low bits of i8, rounded to nearest, ties to
/// even, once. What is beyond the largest number becomes infinity, or NaN where
/// there is none, or stays the largest where there is no NaN either; with
/// `saturate` it is the largest of its sign in all formats. A NaN has
/// all bits set but the sign, or is what would be -0 where zeros have none;
/// where there is no NaN it becomes the largest number.
///
/// Where some targets have instructions a cast, behind a clamp if it saturates,
/// that `binade-expand-float-casts` replaces for the others.
IntLanes encodeSmall(FloatLanes x, FloatType format, bool saturate = false);
/// The same as integer arithmetic.
IntLanes expandEncode(FloatLanes x, FloatType format, bool saturate);

/// The f32 number of each code in i8; by a cast where some targets have
/// instructions.
FloatLanes decodeSmall(IntLanes code, FloatType format);
/// The same as integer arithmetic.
FloatLanes expandDecode(IntLanes code, FloatType format);

/// The power of two with the exponent field in an i32: 2^-127 for 0, NaN for
/// 255, as f8E8M0FNU has it.
FloatLanes decodePower(IntLanes field);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_CASTS_SMALLFLOATS_H
