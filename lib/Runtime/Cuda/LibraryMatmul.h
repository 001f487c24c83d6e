//===- LibraryMatmul.h - Lowering of matmuls to cuBLASLt --------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_CUDA_LIBRARYMATMUL_H
#define BINADE_LIB_RUNTIME_CUDA_LIBRARYMATMUL_H

#include "CublasLtMatmul.h"
#include "StreamOperation.h"

namespace binade::cuda {

/// A batch axis, with the distances from one matmul to the next.
struct BatchAxis {
  std::int64_t size, lhs, rhs, out;
};

/// A matmul of a plan as a matmul of cuBLASLt in a loop over `outer`.
struct LibraryMatmul {
  MatmulProblem problem;
  /// Batch axes that cuBLASLt does not support, with distances in bytes.
  std::vector<BatchAxis> outer;
};

/// Converts a matmul of a plan. It is an error (exit code 6) if cuBLASLt does
/// not support it.
Result<LibraryMatmul> toLibrary(const plan::Matmul &matmul,
                                const StreamSetup &setup);

} // namespace binade::cuda

#endif // BINADE_LIB_RUNTIME_CUDA_LIBRARYMATMUL_H
