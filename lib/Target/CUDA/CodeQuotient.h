//===- CodeQuotient.h - division for codes of 8 bits ------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_CODEQUOTIENT_H
#define BINADE_LIB_TARGET_CUDA_CODEQUOTIENT_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::binade {

/// What has the same code of 8 bits, E4M3 or E5M2 with saturation, as `x`:
/// where that is a vector of f32, divided by a number that many are divided by,
/// a product with its reciprocal that is corrected. `x` itself otherwise.
Value divideForCodes(ImplicitLocOpBuilder &b, Value x);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_CODEQUOTIENT_H
