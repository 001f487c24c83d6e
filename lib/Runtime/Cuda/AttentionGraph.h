//===- AttentionGraph.h - Attention as a graph of cuDNN ---------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_ATTENTIONGRAPH_H
#define BINADE_RUNTIME_CUDA_ATTENTIONGRAPH_H

#include "CudnnAttention.h"

namespace binade::cuda {

/// Fixed ids of the tensors that an execution passes to the graph. The operands
/// have the ids 1 + AttentionOperand.
struct AttentionIds {
  static constexpr std::int64_t kScale = 10, kMask = 11, kOne = 12, kSums = 13;
  static std::int64_t of(std::size_t operand) {
    return static_cast<std::int64_t>(operand) + 1;
  }
};

/// Adds the operations of attention, or of its gradients, in the order that
/// cuDNN's engines expect. The gradients have a further tensor in memory, the
/// sums of dy * y of each query, for which cuDNN needs no initial values.
void addAttention(CudnnGraph &graph, const AttentionProblem &problem);

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_ATTENTIONGRAPH_H
