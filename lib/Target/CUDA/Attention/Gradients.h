//===- Gradients.h - Kernels of attention's gradients -----------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_ATTENTION_GRADIENTS_H
#define BINADE_LIB_TARGET_CUDA_ATTENTION_GRADIENTS_H

#include "AttentionBlock.h"

namespace mlir::binade {

/// The factors of the queries, per row or broadcast to the scores.
struct QueryFactors {
  Value exponent, inner;
  Value reference; ///< Null if scores are plain.

  template <typename Broadcast> QueryFactors map(Broadcast broadcast) const {
    return {broadcast(exponent), broadcast(inner),
            reference ? broadcast(reference) : Value()};
  }
};

/// The weights of values and the gradients of scores and products of a chunk,
/// in f32.
struct Chunk {
  Value weights, products;
  Value scores; ///< Null unless there are gradients of biases.
};

/// `products` are those of query and key, `dp` those of dy and value. Weights
/// are not yet multiplied by the factor of dropout.
Chunk computeChunk(AttentionBlock &block, Value products, Value dp,
                   const QueryFactors &factors, int64_t chunk, bool isMasked);

/// Emits the kernel that computes dquery, and stores what the scores of a query
/// have in common in the workspace for the other kernels.
void emitQueryGradient(ImplicitLocOpBuilder &b, const GpuAttention &attention,
                       StringRef name);
/// Emits the kernel that computes dkey and dvalue.
void emitKeyGradients(ImplicitLocOpBuilder &b, const GpuAttention &attention,
                      StringRef name);
/// Emits the kernel that computes `attention.biasGradients[index]`.
void emitBiasGradient(ImplicitLocOpBuilder &b, const GpuAttention &attention,
                      size_t index, StringRef name);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_ATTENTION_GRADIENTS_H
