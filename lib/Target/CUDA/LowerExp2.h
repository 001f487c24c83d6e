//===- LowerExp2.h - Lowering of approximate powers of two ------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_LOWEREXP2_H
#define BINADE_LIB_TARGET_CUDA_LOWEREXP2_H

#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::binade {

/// Whether `op` is a math.exp2 of f32 that may be approximated (`afn`).
bool isApproximateExp2(Operation *op);

/// Adds a pattern for such ops, of scalars or vectors.
void populateExp2Patterns(const LLVMTypeConverter &types,
                          RewritePatternSet &patterns);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_LOWEREXP2_H
