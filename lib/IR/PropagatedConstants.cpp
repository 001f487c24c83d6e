//===- PropagatedConstants.cpp - Constants within values ------------------===//

#include "binade/IR/PropagatedConstants.h"
#include "binade/IR/Movement.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mlir::binade;

/// The maximum number of ops between a value and such constants.
static constexpr unsigned kMaxCarriers = 32;

/// As AlgebraOpInterface::getElementMap; the identity for ops that only move
/// elements.
static std::function<double(double)> getElementMap(OpOperand &use) {
  if (isMovement(use.getOwner()))
    return multiplyBy(1.0);
  if (auto op = dyn_cast<AlgebraOpInterface>(use.getOwner()))
    return op.getElementMap(use.getOperandNumber());
  return {};
}

static bool isFloat(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

namespace {
using ElementMap = std::function<double(double)>;

/// A value between the requested one and the constants that its
/// elements are computed from.
struct Carrier {
  Value value;
  /// The index of the carrier that reads it, and how elements of that one are
  /// computed from elements of this one.
  size_t reader;
  ElementMap map;
};
} // namespace

/// Returns the map from an element of an operand of the carrier `index`, mapped
/// to an element of the carrier by `inner`, to an element of the first carrier.
static ElementMap composeMaps(ArrayRef<Carrier> carriers, size_t index,
                              const ElementMap &inner) {
  SmallVector<ElementMap> maps = {inner};
  for (; index != 0; index = carriers[index].reader)
    maps.push_back(carriers[index].map);
  return [maps](double number) {
    for (const ElementMap &map : maps)
      number = map(number);
    return number;
  };
}

void PropagatedConstants::visit(Operation *op) {
  if (op->getNumResults() != 1)
    return;
  unsigned nearest = kMaxCarriers;
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    bool isConstant = value.getDefiningOp<ConstantOp>() != nullptr;
    auto found = isConstant ? distances.end() : distances.find(value);
    if (!isConstant && found == distances.end())
      continue;
    if (isFloat(value) && getElementMap(operand))
      nearest = std::min(nearest, isConstant ? 0 : found->second + 1);
  }
  if (nearest < kMaxCarriers)
    distances[op->getResult(0)] = nearest;
}

SmallVector<PropagatedConstant, 1>
PropagatedConstants::find(Value value) const {
  SmallVector<PropagatedConstant, 1> found;
  if (!distances.contains(value))
    return found;
  // Maps are composed only for the few values that have constants.
  SmallVector<Carrier, 0> carriers = {{value, 0, {}}};
  SmallVector<size_t> worklist = {0};
  llvm::SmallDenseSet<Value, 8> seen;
  while (!worklist.empty() && seen.size() < kMaxCarriers) {
    size_t index = worklist.pop_back_val();
    Operation *op = carriers[index].value.getDefiningOp();
    if (!op || op->getNumResults() != 1 ||
        !seen.insert(carriers[index].value).second)
      continue;
    for (OpOperand &operand : op->getOpOperands()) {
      bool isConstant = operand.get().getDefiningOp<ConstantOp>() != nullptr;
      if (!isConstant && !distances.contains(operand.get()))
        continue;
      ElementMap inner =
          isFloat(operand.get()) ? getElementMap(operand) : ElementMap();
      if (!inner)
        continue;
      if (isConstant) {
        found.push_back(
            {operand.get(), &operand, composeMaps(carriers, index, inner)});
      } else {
        worklist.push_back(carriers.size());
        carriers.push_back({operand.get(), index, std::move(inner)});
      }
    }
  }
  return found;
}
