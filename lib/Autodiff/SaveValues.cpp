//===- SaveValues.cpp - Save values for the backward pass -----------------===//

#include "binade/Autodiff/SaveValues.h"
#include "binade/IR/Interface.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::binade;

SmallVector<SaveOp> mlir::binade::saveForwardValues(func::FuncOp function) {
  llvm::MapVector<Value, SmallVector<OpOperand *>> crossing;
  for (Operation &op : function.front().without_terminator())
    if (getPhase(&op) == Phase::Backward)
      for (OpOperand &operand : op.getOpOperands())
        if (Operation *producer = operand.get().getDefiningOp();
            producer && getPhase(producer) == Phase::Forward &&
            !producer->hasTrait<OpTrait::ConstantLike>())
          crossing[operand.get()].push_back(&operand);
  ImplicitLocOpBuilder b(function.getLoc(), function.getContext());
  SmallVector<SaveOp> saves;
  for (auto &[value, operands] : crossing) {
    b.setInsertionPointAfterValue(value);
    b.setLoc(value.getLoc());
    saves.push_back(SaveOp::create(b, value));
    for (OpOperand *operand : operands)
      operand->set(saves.back());
  }
  return saves;
}
