//===- LibraryAttention.h - Lowering of attention to cuDNN ------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_CUDA_LIBRARYATTENTION_H
#define BINADE_LIB_RUNTIME_CUDA_LIBRARYATTENTION_H

#include "CudnnAttention.h"
#include "StreamOperation.h"

namespace binade::cuda {

/// A batch axis that cuDNN does not support, with the distances in bytes from
/// one attention to the next.
struct AttentionAxis {
  std::int64_t size = 1;
  std::array<std::int64_t, AttentionOperand::kCount> bytes = {};
};

/// An attention of a plan as one of cuDNN in a loop over `outer`.
struct LibraryAttention {
  AttentionProblem problem;
  std::vector<AttentionAxis> outer;
};

/// Converts an attention of a plan. It is an error (exit code 6) if cuDNN does
/// not support it, or would not give the same bits in each run.
Result<LibraryAttention> toLibrary(const plan::Attention &attention,
                                   const StreamSetup &setup);

} // namespace binade::cuda

#endif // BINADE_LIB_RUNTIME_CUDA_LIBRARYATTENTION_H
