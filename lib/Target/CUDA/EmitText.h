//===- EmitText.h - Kernels of plan records ---------------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_EMITTEXT_H
#define BINADE_LIB_TARGET_CUDA_EMITTEXT_H

#include "binade/Target/CUDA.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::binade {

/// Prints a module with a gpu.module in which `emit` creates kernels.
std::string
printKernelModule(llvm::function_ref<void(ImplicitLocOpBuilder &)> emit);

/// Print such a module with the kernel `name` and, if it needs one, its finish.
std::string printMatmul(const GpuMatmul &product, StringRef name);
std::string printConvolution(const GpuConvolution &convolution, StringRef name);
std::string printAttention(const GpuAttention &attention, StringRef name);
std::string printCopy(const GpuCopy &copy, StringRef name);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_EMITTEXT_H
