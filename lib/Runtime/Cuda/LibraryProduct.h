//===- LibraryProduct.h - A plan's product for the library ------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_LIBRARYPRODUCT_H
#define BINADE_RUNTIME_CUDA_LIBRARYPRODUCT_H

#include "CublasLtMatmul.h"
#include "StreamOperation.h"

namespace binade::cuda {

/// A batch axis, with the distance from one product to the next.
struct BatchAxis {
  std::int64_t size, lhs, rhs, out;
};

struct LibraryProduct {
  MatmulProblem problem;
  /// Axes that the library does not take, with distances in bytes.
  std::vector<BatchAxis> outer;
};

/// From a plan's strides to what the library takes; an error (exit code 6) says
/// what it does not.
Result<LibraryProduct> toLibrary(const plan::Matmul &matmul,
                                 const StreamSetup &setup);

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_LIBRARYPRODUCT_H
