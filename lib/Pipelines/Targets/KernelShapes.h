//===- KernelShapes.h - Kernel shapes for plans -----------------*- C++ -*-===//

#ifndef BINADE_LIB_PIPELINES_TARGETS_KERNELSHAPES_H
#define BINADE_LIB_PIPELINES_TARGETS_KERNELSHAPES_H

#include "binade/Codegen/EmitKernel.h"
#include "binade/Kernels/EmitPlan.h"

namespace mlir::binade {

/// Returns the description of a kernel that a plan needs.
KernelShape getShape(const KernelInfo &info);

std::vector<std::byte> getBytes(StringRef data);

} // namespace mlir::binade

#endif // BINADE_LIB_PIPELINES_TARGETS_KERNELSHAPES_H
