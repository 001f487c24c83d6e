//===- LowerMma.h - products of the matrix units to NVVM --------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_LOWERMMA_H
#define BINADE_LIB_TARGET_CUDA_LOWERMMA_H

#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::binade {

/// For nvgpu.mma.sync and nvgpu.ldmatrix.
void populateMmaPatterns(const LLVMTypeConverter &types,
                         RewritePatternSet &patterns);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_LOWERMMA_H
