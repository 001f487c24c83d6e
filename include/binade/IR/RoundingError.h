//===- RoundingError.h - Rounding errors of bf16 in 8 bits ------*- C++ -*-===//
//
// `master = split_8bit` stores an f32 as the nearest bf16 and an 8-bit code of
// the rounding error; `join_halves` defines both. Powers of two are taken from
// the bits, and such that no product underflows or overflows.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_ROUNDINGERROR_H
#define BINADE_IR_ROUNDINGERROR_H

#include "binade/IR/Build.h"

namespace mlir::binade {

/// Returns the f32 that is stored as `rounded`, a bf16 in f32, and `code`, in
/// i32. Both are scalars or vectors.
Value addRoundingError(ImplicitLocOpBuilder &b, Value rounded, Value code);

/// Returns the nearest bf16 of an f32, as f32, and the code of the rounding
/// error, as i32.
std::pair<Value, Value> splitRoundingError(ImplicitLocOpBuilder &b,
                                           Value number);

} // namespace mlir::binade

#endif // BINADE_IR_ROUNDINGERROR_H
