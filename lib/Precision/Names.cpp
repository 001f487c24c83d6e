//===- Names.cpp - Ops and values as people call them ---------------------===//

#include "binade/Precision/Names.h"
#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

StringRef mlir::binade::getNodeName(Operation *op) {
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    return name.getName();
  return "";
}

std::string mlir::binade::describe(Operation *op) {
  std::string text = op->getName().stripDialect().str();
  if (StringRef node = getNodeName(op); !node.empty())
    text += (" at '" + node + "'").str();
  if (Phase phase = getPhase(op); phase != Phase::Forward)
    text += (", " + stringifyPhase(phase)).str();
  return text;
}

std::string mlir::binade::describe(Value value) {
  if (Operation *op = value.getDefiningOp())
    return describe(op);
  auto argument = cast<BlockArgument>(value);
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (auto port = getArgument(function, argument.getArgNumber()))
    return (stringifyRole(port->role) + " '" + port->name + "'").str();
  return "argument " + std::to_string(argument.getArgNumber());
}
