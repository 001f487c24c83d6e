//===- Movement.cpp - Ops that compute nothing ----------------------------===//

#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

static bool hasSchedule(Operation *op, Schedule schedule) {
  auto kernelOp = dyn_cast_or_null<KernelOpInterface>(op);
  return kernelOp && kernelOp.getSchedule() == schedule;
}

bool mlir::binade::isView(Operation *op) {
  return hasSchedule(op, Schedule::View) && op->getNumOperands() == 1;
}

Value mlir::binade::findBase(Value value) {
  while (isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

bool mlir::binade::isMovement(Operation *op) {
  return (isView(op) && !isa<SaveOp>(op)) || hasSchedule(op, Schedule::Permute);
}

uint64_t mlir::binade::getByteSize(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() *
         llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
}

RankedTensorType mlir::binade::getTensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

int64_t mlir::binade::getNumElements(Value value) {
  return getTensor(value).getNumElements();
}

Operation *mlir::binade::findFirstUser(Value value) {
  Operation *first = nullptr;
  for (Operation *user : value.getUsers())
    if (!first || user->isBeforeInBlock(first))
      first = user;
  return first;
}
