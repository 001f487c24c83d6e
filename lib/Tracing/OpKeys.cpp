//===- OpKeys.cpp - Keys and descriptions of ops --------------------------===//

#include "OpKeys.h"
#include "binade/IR/Formats.h"
#include "binade/IR/Names.h"
#include "binade/Precision/Describe.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the node of an op; for an update, the name of the parameter.
static StringRef getPlace(Operation *op) {
  if (auto update = dyn_cast<OptimizerUpdateOp>(op))
    if (auto argument = dyn_cast<BlockArgument>(update.getParameter()))
      if (auto port = getArgument(cast<func::FuncOp>(op->getParentOp()),
                                  argument.getArgNumber()))
        return port->name;
  return getNodeName(op);
}

std::string OpKeys::next(Operation *op) {
  std::string key = (stringifyPhase(getPhase(op)) + " " +
                     op->getName().stripDialect() + " " + getPlace(op))
                        .str();
  return key + " #" + std::to_string(++counts[key]);
}

std::string mlir::binade::nameInput(const Port &port) {
  return (stringifyRole(port.role) + "/" + port.name).str();
}

void mlir::binade::describeFormat(Value value, TracedValue &traced) {
  Type element = getElementTypeOrSelf(value.getType());
  traced.format = llvm::to_string(element);
  if (auto format = dyn_cast<FloatType>(element))
    traced.limit = getLargest(format);
}

TracedValue mlir::binade::describeTraced(Operation *op, unsigned result) {
  TracedValue traced;
  traced.kind = op->getName().stripDialect();
  traced.node = getPlace(op);
  traced.phase = getPhase(op);
  describeFormat(op->getResult(result), traced);
  if (auto update = dyn_cast<OptimizerUpdateOp>(op)) {
    StorageAttr decision = update.getStorageAttr();
    traced.decision = describe(decision);
    traced.rule = describeCause(decision);
    return traced;
  }
  auto decided = dyn_cast<PrecisionOpInterface>(op);
  if (PrecisionAttr decision = decided ? decided.getPrecisionAttr() : nullptr) {
    traced.decision = describe(decision);
    traced.rule = decision.isPin() ? "pin of the module"
                                   : decision.getRule().getValue().str();
    if (FloatType sums = decision.getAccumulate();
        sums && decided.accumulates())
      traced.sums = llvm::to_string(sums);
  }
  return traced;
}

Value mlir::binade::getOriginal(Value value) {
  auto isFloat = [](Value x) {
    return isa<FloatType>(getElementTypeOrSelf(x.getType()));
  };
  for (;;) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<SaveOp, CastOp>(op) || !isFloat(op->getOperand(0)) ||
        !isFloat(value))
      return value;
    value = op->getOperand(0);
  }
}

TracedRange mlir::binade::measureRange(const Tensor &tensor) {
  TracedRange range;
  range.elements = tensor.getNumElements();
  for (double x : tensor.getFloats()) {
    double magnitude = std::fabs(x);
    if (x == -INFINITY) {
      ++range.minusInfinite;
    } else if (!std::isfinite(x)) {
      ++range.wrong;
    } else if (x == 0.0) {
      ++range.zeros;
    } else {
      range.largest = std::fmax(range.largest, magnitude);
      if (range.smallest == 0.0 || magnitude < range.smallest)
        range.smallest = magnitude;
    }
  }
  return range;
}
