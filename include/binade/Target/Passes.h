//===- Passes.h - passes of the Target station ------------------*- C++ -*-===//

#ifndef BINADE_TARGET_PASSES_H
#define BINADE_TARGET_PASSES_H

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
} // namespace mlir::binade

#endif // BINADE_TARGET_PASSES_H
