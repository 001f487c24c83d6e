//===- Saturate.h - Clamping to the range of a format -----------*- C++ -*-===//

#ifndef BINADE_CODEGEN_SATURATE_H
#define BINADE_CODEGEN_SATURATE_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::binade {

/// Returns `x` clamped to the range of finite values of `format`; NaN stays
/// NaN. With a cast after it, this is a saturating cast, for which targets may
/// emit one instruction.
Value clampTo(ImplicitLocOpBuilder &b, Value x, FloatType format);

/// Returns the value that was clamped if `x` is a result of `clampTo` with
/// `format`, otherwise null.
Value getUnclamped(Value x, FloatType format);

} // namespace mlir::binade

#endif // BINADE_CODEGEN_SATURATE_H
