//===- Alignment.h - Alignments of kernel operands --------------*- C++ -*-===//

#ifndef BINADE_LIB_PIPELINES_TARGETS_CUDA_ALIGNMENT_H
#define BINADE_LIB_PIPELINES_TARGETS_CUDA_ALIGNMENT_H

#include "binade/Plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::binade {

/// Records on the kernels of `module` the operands and results that `plan` does
/// not place at multiples of kGpuAlignment, such as slices of a tile. Returns
/// whether there are new ones: kernels that were compiled before would access
/// them by misaligned vectors, so they have to be compiled again.
bool noteAlignments(ModuleOp module, const ::binade::Plan &plan);

/// Returns the recorded alignments of a kernel, in the format of a plan; empty
/// if none is recorded.
std::vector<int64_t> getAlignments(func::FuncOp kernel);

} // namespace mlir::binade

#endif // BINADE_LIB_PIPELINES_TARGETS_CUDA_ALIGNMENT_H
