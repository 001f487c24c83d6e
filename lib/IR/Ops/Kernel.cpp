//===- Kernel.cpp - calls of kernels --------------------------------------===//

#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Kernel.cpp.inc"

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("launches '")
           << getKernel() << "', which is not a function of this module";
  if (!kernel->hasAttr(kKernelAttr))
    return emitOpError("launches '")
           << getKernel() << "', which is not marked as a kernel";
  if (kernel.getArgumentTypes() != getOperandTypes() ||
      kernel.getResultTypes() != getResultTypes())
    return emitOpError("has type (")
           << getOperandTypes() << ") -> (" << getResultTypes()
           << "), the kernel " << kernel.getFunctionType();
  return success();
}
