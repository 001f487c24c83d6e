//===- CpuTarget.h - The CPU as a target ------------------------*- C++ -*-===//

#ifndef BINADE_IR_CPUTARGET_H
#define BINADE_IR_CPUTARGET_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// The name of the `#binade.target` of CPUs. `getTarget` does not return it,
/// because only attention reads its properties.
inline constexpr StringLiteral kCpuTargetName = "cpu";

/// Returns the target of the module of `op`, also that of CPUs; null before
/// kernels are formed.
TargetAttr getAnyTarget(Operation *op);

} // namespace mlir::binade

#endif // BINADE_IR_CPUTARGET_H
