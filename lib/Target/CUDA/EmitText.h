//===- EmitText.h - Kernels written as text ---------------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_EMITTEXT_H
#define BINADE_LIB_TARGET_CUDA_EMITTEXT_H

#include "binade/Target/CUDA.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::binade {

/// A module with a gpu.module, in which `emit` puts a kernel.
std::string
printKernelModule(llvm::function_ref<void(ImplicitLocOpBuilder &)> emit);

/// Such a module with a kernel `name`, and one for its finish if there is any.
std::string printProduct(const GpuProduct &product, StringRef name);
std::string printConvolution(const GpuConvolution &convolution, StringRef name);
std::string printAttention(const GpuAttention &attention, StringRef name);
std::string printCopy(const GpuCopy &copy, StringRef name);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_EMITTEXT_H
