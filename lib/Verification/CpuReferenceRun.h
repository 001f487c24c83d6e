//===- CpuReferenceRun.h - A device's plan for the CPU ----------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_CPUREFERENCERUN_H
#define BINADE_LIB_VERIFICATION_CPUREFERENCERUN_H

#include "binade/Plan/Bundle.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::binade {

/// Returns a bundle for this machine's CPU that computes the same as `plan`,
/// the plan of a device: the same records with the same buffers, and kernels
/// that are compiled from `source`. Their workspaces are added after the arena.
/// This works because the CPU supports all in-place results of devices.
FailureOr<::binade::Bundle> makeCpuReference(ModuleOp source,
                                             const ::binade::Plan &plan);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_CPUREFERENCERUN_H
