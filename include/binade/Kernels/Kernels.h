//===- Kernels.h - Kernels as functions -------------------------*- C++ -*-===//

#ifndef BINADE_KERNELS_KERNELS_H
#define BINADE_KERNELS_KERNELS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Returns the text of a kernel's function without its name and locations,
/// which is equal for kernels that compute the same.
std::string getKernelKey(func::FuncOp kernel);

} // namespace mlir::binade

#endif // BINADE_KERNELS_KERNELS_H
