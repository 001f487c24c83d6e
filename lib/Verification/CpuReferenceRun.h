//===- CpuReferenceRun.h - A device plan with CPU kernels -------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_CPUREFERENCERUN_H
#define BINADE_LIB_VERIFICATION_CPUREFERENCERUN_H

#include "binade/Plan/Bundle.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::binade {

/// The bundle of `plan`, which is a device's, for this machine's CPU: the same
/// records over the same buffers, with kernels compiled from `source`. Their
/// workspaces lie behind the arena. A CPU lets a result take the memory of an
/// operand wherever a device does.
FailureOr<::binade::Bundle> makeCpuReference(ModuleOp source,
                                             const ::binade::Plan &plan);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_CPUREFERENCERUN_H
