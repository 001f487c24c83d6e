//===- Passes.h - Passes and pipelines of Codegen ---------------*- C++ -*-===//

#ifndef BINADE_CODEGEN_PASSES_H
#define BINADE_CODEGEN_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/Pass.h"

namespace mlir {
class RewritePatternSet;
} // namespace mlir

namespace mlir::binade {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "binade/Codegen/Passes.h.inc"

/// Adds patterns that replace transcendental functions of f32 scalars and
/// vectors by arithmetic; see `binade-expand-math`.
void populateExpandMathPatterns(RewritePatternSet &patterns);

/// Adds the passes of `binade-conversion-pipeline`: kernels become loops, math
/// functions arithmetic, and casts of narrow floats integer arithmetic.
void buildConversionPipeline(OpPassManager &passes);
/// Adds the passes of `binade-gpu-conversion-pipeline`, which does the same
/// with kernels of the gpu dialect.
void buildGpuConversionPipeline(OpPassManager &passes);
/// Adds the passes of the GPU pipeline that follow `binade-emit-gpu-kernels`.
void buildGpuExpansionPipeline(OpPassManager &passes);
void registerConversionPipeline();

/// Adds patterns that replace casts from and to bf16, casts from f64 to 16
/// bits, and casts between f32 and formats of at most 8 bits by integer
/// arithmetic; see `binade-expand-float-casts`. Casts between f32 and a format
/// of `kept` remain.
void populateExpandCastPatterns(RewritePatternSet &patterns,
                                ArrayRef<Type> kept = {});
} // namespace mlir::binade

#endif // BINADE_CODEGEN_PASSES_H
