//===- EmitProduct.h - matrix products as kernels ---------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_EMITPRODUCT_H
#define BINADE_LIB_TARGET_CUDA_EMITPRODUCT_H

#include "binade/Target/CUDA.h"

namespace mlir::binade {

/// A module with a gpu.module that has a kernel `name` for `product`.
std::string printProduct(const GpuProduct &product, StringRef name);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_EMITPRODUCT_H
