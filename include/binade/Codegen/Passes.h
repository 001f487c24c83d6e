//===- Passes.h - Conversion passes -----------------------------*- C++ -*-===//

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

/// Patterns that replace transcendental functions of f32 scalars and vectors by
/// arithmetic; see `binade-expand-math`.
void populateExpandMathPatterns(RewritePatternSet &patterns);

/// Kernels to loops, functions to arithmetic, casts to integer arithmetic:
/// `binade-conversion-pipeline`.
void buildConversionPipeline(OpPassManager &passes);
/// The same for a GPU, to kernels of the gpu dialect:
/// `binade-gpu-conversion-pipeline`.
void buildGpuConversionPipeline(OpPassManager &passes);
/// The part of it behind emission.
void buildGpuExpansionPipeline(OpPassManager &passes);
void registerConversionPipeline();

/// Patterns that replace conversions from and to bf16, and from f64 to 16 bits,
/// by integer arithmetic; see `binade-expand-float-casts`. Casts between f32
/// and a format of `kept` stay.
void populateExpandCastPatterns(RewritePatternSet &patterns,
                                ArrayRef<Type> kept = {});
} // namespace mlir::binade

#endif // BINADE_CODEGEN_PASSES_H
