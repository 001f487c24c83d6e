//===- GroupReads.cpp - Values that kernels load or recompute -------------===//

#include "Grouping.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

bool mlir::binade::isKernel(Operation *op) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  return kernelOp && kernelOp.getSchedule() != Schedule::View &&
         kernelOp.getSchedule() != Schedule::Library;
}

bool mlir::binade::isRecomputed(Operation *op) {
  auto isMarkedRecomputed = [](Operation *op) {
    auto kernelOp = dyn_cast_or_null<KernelOpInterface>(op);
    return kernelOp && kernelOp.isRecomputed();
  };
  if (isMarkedRecomputed(op) || (op && op->hasAttr(kRecomputedAttr)))
    return true;
  // Index arithmetic, from which masks are computed.
  return isa_and_nonnull<ElementwiseOpInterface>(op) &&
         op->getNumResults() == 1 &&
         isa<IntegerType>(getElementTypeOrSelf(op->getResult(0).getType())) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isMarkedRecomputed(operand.getDefiningOp());
         });
}

bool mlir::binade::isRecomputedInMultiTensor(Operation *op) {
  return isRecomputed(op) && isa<ElementwiseOpInterface>(op);
}

llvm::SetVector<Value> mlir::binade::getMemory(const FusionGroup &group) {
  llvm::SetVector<Value> memory;
  SmallVector<Operation *> pending(group.ops);
  while (!pending.empty())
    for (Value operand : pending.pop_back_val()->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (producer && isRecomputed(producer))
        pending.push_back(producer);
      else if (!llvm::is_contained(group.ops, producer))
        memory.insert(operand);
    }
  return memory;
}

void mlir::binade::addReaders(Value value,
                              llvm::SetVector<Operation *> &readers) {
  for (Operation *user : value.getUsers())
    if (!isRecomputed(user))
      readers.insert(user);
    else
      for (Value result : user->getResults())
        addReaders(result, readers);
}
