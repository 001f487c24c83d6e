//===- LayerProducts.cpp - The three products of a layer ------------------===//

#include "binade/Precision/LayerProducts.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the value from which `value` was moved, cast or saved.
static Value findUnmoved(Value value) {
  while (Operation *maker = value.getDefiningOp()) {
    Value before = isa<SaveOp>(maker) ? maker->getOperand(0) : getMoved(value);
    if (!before)
      break;
    value = before;
  }
  return value;
}

/// Whether `value` is an argument of the step other than the batch.
static bool isKept(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto step = argument
                  ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
                  : nullptr;
  std::optional<Port> port =
      step ? getArgument(step, argument.getArgNumber()) : std::nullopt;
  return argument && !(port && port->role == Role::Batch);
}

OperandKind mlir::binade::findOperandKind(OpOperand &operand) {
  Value origin = findUnmoved(operand.get());
  Operation *maker = origin.getDefiningOp();
  if (maker && getPhase(maker) == Phase::Backward)
    return OperandKind::Gradient;
  return isKept(origin) ? OperandKind::Weight : OperandKind::Activation;
}

LayerProduct mlir::binade::findLayerProduct(PrecisionOpInterface op,
                                            const OpRoles &roles) {
  if (getPhase(op) != Phase::Backward)
    return LayerProduct::Forward;
  for (OpOperand &operand : op->getOpOperands())
    if (op.getOperandFormat(operand.getOperandNumber()) == FormatRole::Chosen &&
        findOperandKind(operand) == OperandKind::Weight)
      return LayerProduct::InputGradient;
  return roles.has(op, TensorRole::Weight) ? LayerProduct::WeightGradient
                                           : LayerProduct::InputGradient;
}
