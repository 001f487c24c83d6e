//===- Fallbacks.h - How a plan deviates from decisions ---------*- C++ -*-===//
//
// A decision does not depend on an op's shape, but the target may lack an
// instruction or a library call for that shape. `binade-expand-composites` then
// attaches `binade.fallback` to the op; these functions collect and report it.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_PIPELINES_FALLBACKS_H
#define BINADE_PIPELINES_FALLBACKS_H

#include "binade/IR/Fallback.h"
#include "binade/Pipelines/Pipelines.h"

namespace mlir::binade {

/// Returns the ops of `@step` that a plan for the options' target does not
/// compute as decided. `module`, the result of phase `optimizer`, is not
/// changed: the phases up to `kernels` run on a copy. If they fail, fails with
/// their first error in `error`.
FailureOr<llvm::DenseMap<Operation *, Fallback>>
findFallbacks(ModuleOp module, const CompileOptions &options,
              std::string &error);

/// Warns of ops whose formats differ from their decisions, in the result of
/// phase `kernels`, or fails with an error if the options are strict. A target
/// without matmuls of quantized operands, such as a CPU, gets the error but no
/// warning.
LogicalResult reportFallbacks(ModuleOp module, const CompileOptions &options);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_FALLBACKS_H
