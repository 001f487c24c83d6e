//===- Dataflow.cpp - Dataflow queries of raising -------------------------===//

#include "Dataflow.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

DenseSet<Value> mlir::binade::getCone(ValueRange roots) {
  DenseSet<Value> cone(roots.begin(), roots.end());
  SmallVector<Value> pending(roots);
  while (!pending.empty())
    if (Operation *op = pending.pop_back_val().getDefiningOp()) {
      cone.insert_range(op->getResults());
      for (Value operand : op->getOperands())
        if (cone.insert(operand).second)
          pending.push_back(operand);
    }
  return cone;
}

bool mlir::binade::isElementwise(Operation *op) {
  return isa<ElementwiseOpInterface>(op) && op->getNumResults() == 1;
}

Value mlir::binade::getScalarSource(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumOperands() != 1 ||
      !(isMovement(op) || isa<BroadcastOp>(op)) ||
      getNumElements(op->getOperand(0)) != 1)
    return {};
  return op->getOperand(0);
}

bool mlir::binade::isScalar(Value value) {
  return getNumElements(value) == 1 || getScalarSource(value);
}
