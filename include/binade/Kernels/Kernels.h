//===- Kernels.h - kernels as functions -------------------------*- C++ -*-===//

#ifndef BINADE_KERNELS_KERNELS_H
#define BINADE_KERNELS_KERNELS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Text that is equal for kernels that compute the same: the function without
/// its name and locations.
std::string getKernelKey(func::FuncOp kernel);

} // namespace mlir::binade

#endif // BINADE_KERNELS_KERNELS_H
