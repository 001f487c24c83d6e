//===- EraseDead.cpp - Removal of unused ops ------------------------------===//

#include "binade/IR/EraseDead.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

void mlir::binade::eraseDead(func::FuncOp function) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}
