//===- FindPhase.h - The phase that wrote a module --------------*- C++ -*-===//

#ifndef BINADE_PIPELINES_FINDPHASE_H
#define BINADE_PIPELINES_FINDPHASE_H

#include "binade/Pipelines/Phase.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::binade {

/// Returns the phase whose result `module` is: import, autodiff or optimizer.
/// Returns none for results of later phases, which look alike, and for modules
/// without any of the functions that phases write.
std::optional<CompilerPhase> findPhase(ModuleOp module);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_FINDPHASE_H
