//===- Passes.h - Passes and pipelines of Target ----------------*- C++ -*-===//

#ifndef BINADE_TARGET_PASSES_H
#define BINADE_TARGET_PASSES_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::binade {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "binade/Target/Passes.h.inc"

/// Adds the passes of `binade-target-cpu-pipeline`, which lowers loops over
/// memory to the LLVM dialect and adds entry points.
void buildTargetCpuPipeline(OpPassManager &passes);
void registerTargetCpuPipeline();

/// Adds the passes of `binade-target-cuda-pipeline`, which lowers kernels of
/// the gpu dialect to the LLVM and nvvm dialects for the chip of this name.
void buildTargetCudaPipeline(OpPassManager &passes, StringRef chip);
void registerTargetCudaPipeline();
} // namespace mlir::binade

#endif // BINADE_TARGET_PASSES_H
