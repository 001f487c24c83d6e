//===- Saturate.h - numbers kept within a format ----------------*- C++ -*-===//

#ifndef BINADE_CODEGEN_SATURATE_H
#define BINADE_CODEGEN_SATURATE_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::binade {

/// `x`, or what is nearest to it among the finite numbers of `format`; NaN
/// stays. A cast that follows it saturates, and targets make one of the two.
Value clampTo(ImplicitLocOpBuilder &b, Value x, FloatType format);

/// What was clamped to `format` where `x` is the result, null elsewhere.
Value getUnclamped(Value x, FloatType format);

} // namespace mlir::binade

#endif // BINADE_CODEGEN_SATURATE_H
