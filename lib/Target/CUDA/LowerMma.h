//===- LowerMma.h - Lowering of matrix instructions to NVVM -----*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_LOWERMMA_H
#define BINADE_LIB_TARGET_CUDA_LOWERMMA_H

#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::binade {

/// Adds patterns for nvgpu.mma.sync and nvgpu.ldmatrix.
void populateMmaPatterns(const LLVMTypeConverter &types,
                         RewritePatternSet &patterns);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_LOWERMMA_H
