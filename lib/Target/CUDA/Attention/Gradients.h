//===- Gradients.h - Kernels of attention's gradients -----------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_ATTENTION_GRADIENTS_H
#define BINADE_LIB_TARGET_CUDA_ATTENTION_GRADIENTS_H

#include "binade/Target/GpuContractions.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::binade {

/// Emits the kernel that computes dquery, and stores sum(dy y) in the workspace
/// for the other kernel.
void emitQueryGradient(ImplicitLocOpBuilder &b, const GpuAttention &attention,
                       StringRef name);
/// Emits the kernel that computes dkey and dvalue.
void emitKeyGradients(ImplicitLocOpBuilder &b, const GpuAttention &attention,
                      StringRef name);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_ATTENTION_GRADIENTS_H
