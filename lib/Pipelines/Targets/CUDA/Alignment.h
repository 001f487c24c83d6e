//===- Alignment.h - where a plan puts operands -----------------*- C++ -*-===//

#ifndef BINADE_LIB_PIPELINES_TARGETS_CUDA_ALIGNMENT_H
#define BINADE_LIB_PIPELINES_TARGETS_CUDA_ALIGNMENT_H

#include "binade/Plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::binade {

/// Writes on the kernels of `module` which operands and results `plan` has at
/// addresses that are multiples of less than kGpuAlignment: pieces of a tile,
/// whose bytes are not. Says whether there are any; their kernels, if they were
/// compiled before, read vectors where there are none.
bool noteAlignments(ModuleOp module, const ::binade::Plan &plan);

/// What was written on a kernel, as a plan has it: empty where nothing was.
std::vector<int64_t> getAlignments(func::FuncOp kernel);

} // namespace mlir::binade

#endif // BINADE_LIB_PIPELINES_TARGETS_CUDA_ALIGNMENT_H
