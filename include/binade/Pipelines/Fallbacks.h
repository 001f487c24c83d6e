//===- Fallbacks.h - what a plan computes otherwise -------------*- C++ -*-===//
//
// Decisions are made for an op whatever its shape is; the target may lack an
// instruction or a library call for that shape. `binade-expand-composites` then
// marks the op (`binade.fallback`), and what is here tells people.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_PIPELINES_FALLBACKS_H
#define BINADE_PIPELINES_FALLBACKS_H

#include "binade/IR/Fallback.h"
#include "binade/Pipelines/Pipelines.h"

namespace mlir::binade {

/// The ops of `@step` that a plan for the options' target computes otherwise
/// than was decided. `module`, left by phase `optimizer`, stays as it is: a
/// copy of it goes through the phases up to `kernels`. Where they fail, so does
/// this, with what they said in `error`.
FailureOr<llvm::DenseMap<Operation *, Fallback>>
findFallbacks(ModuleOp module, const CompileOptions &options,
              std::string &error);

/// Warns of them, in a module left by phase `kernels`; with `isStrict` formats
/// that were not kept are an error. Of a CPU, which multiplies no codes, only
/// who is strict hears.
LogicalResult reportFallbacks(ModuleOp module, const CompileOptions &options);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_FALLBACKS_H
