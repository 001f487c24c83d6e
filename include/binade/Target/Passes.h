//===- Passes.h - passes of the Target station ------------------*- C++ -*-===//

#ifndef BINADE_TARGET_PASSES_H
#define BINADE_TARGET_PASSES_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::binade {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "binade/Target/Passes.h.inc"

/// Loops of arithmetic over memory to the LLVM dialect, with entry points:
/// `binade-target-cpu-pipeline`.
void buildTargetCpuPipeline(OpPassManager &passes);
void registerTargetCpuPipeline();

/// Kernels of the gpu dialect to the LLVM and nvvm dialects, for a chip by its
/// name: `binade-target-cuda-pipeline`.
void buildTargetCudaPipeline(OpPassManager &passes, StringRef chip);
void registerTargetCudaPipeline();
} // namespace mlir::binade

#endif // BINADE_TARGET_PASSES_H
