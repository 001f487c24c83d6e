//===- Gradients.h - kernels for gradients of attention ---------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_ATTENTION_GRADIENTS_H
#define BINADE_LIB_TARGET_CUDA_ATTENTION_GRADIENTS_H

#include "binade/Target/GpuContractions.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::binade {

/// Query by query: dquery, and sum(dy y) for the other kernel, in the
/// workspace.
void emitQueryGradient(ImplicitLocOpBuilder &b, const GpuAttention &attention,
                       StringRef name);
/// Key by key: dkey and dvalue.
void emitKeyGradients(ImplicitLocOpBuilder &b, const GpuAttention &attention,
                      StringRef name);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_ATTENTION_GRADIENTS_H
