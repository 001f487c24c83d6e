//===- Masks.cpp - Constants that exclude elements ------------------------===//

#include "binade/IR/Masks.h"
#include "binade/IR/Build.h"
#include "binade/IR/Movement.h"
#include "llvm/ADT/SmallSet.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Bounds from here on bound nothing.
static constexpr double kUnbounded = 1e38;
/// A factor of an indicator is no scale of scores.
static constexpr double kMinFactor = 1e8;
/// Ops between a mask and what reads it.
static constexpr unsigned kMaxOps = 256;

namespace {
/// A value that a mask is part of, and whether it is negative there.
struct Masked {
  Value value;
  bool isNegative;
};
} // namespace

/// What `use`, of a value with a mask, makes of it; nothing where the mask is
/// none any more.
static std::optional<Masked> follow(OpOperand &use, bool isNegative,
                                    double magnitude) {
  Operation *op = use.getOwner();
  if (op->getNumResults() != 1)
    return std::nullopt;
  if (isMovement(op) || isa<SaveOp, CastOp, AddOp, SelectOp>(op))
    return Masked{op->getResult(0), isNegative};
  if (isa<NegOp>(op) || (isa<SubOp>(op) && use.getOperandNumber() == 1))
    return Masked{op->getResult(0), !isNegative};
  if (isa<SubOp>(op) || (isa<MulOp>(op) && magnitude >= kMinFactor))
    return Masked{op->getResult(0), isNegative};
  return std::nullopt;
}

bool mlir::binade::isMask(OpOperand &use, double number) {
  double magnitude = std::abs(number);
  if (isa<MaxOp, MinOp>(use.getOwner()) && magnitude >= kUnbounded)
    return true;
  SmallVector<std::pair<OpOperand *, bool>> worklist = {{&use, number < 0}};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!worklist.empty() && seen.size() < kMaxOps) {
    auto [next, isNegative] = worklist.pop_back_val();
    Operation *op = next->getOwner();
    if (isNegative &&
        isa<SoftmaxOp, LogSoftmaxOp, AttentionOp, CrossEntropyOp, ReduceMaxOp>(
            op))
      return true;
    if (!seen.insert(op).second)
      continue;
    if (std::optional<Masked> masked = follow(*next, isNegative, magnitude))
      for (OpOperand &reader : masked->value.getUses())
        worklist.push_back({&reader, masked->isNegative});
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Constants that values carry
//===----------------------------------------------------------------------===//

/// Values that are looked through.
static constexpr unsigned kMaxCarriers = 32;

/// What `op` makes of a number of its operand `use` where that is what counts;
/// null where it is none of its own.
static std::function<double(double)> getCarrying(OpOperand &use) {
  Operation *op = use.getOwner();
  auto isSame = [](double number) { return number; };
  if (isMovement(op) || isa<SaveOp, CastOp, AddOp, SelectOp, MaxOp, MinOp,
                            ReluOp, AbsOp, PadOp, ConcatOp>(op))
    return isSame;
  if (isa<NegOp>(op) || (isa<SubOp>(op) && use.getOperandNumber() == 1))
    return [](double number) { return -number; };
  if (isa<SubOp>(op))
    return isSame;
  if (isa<SqrtOp>(op))
    return [](double number) { return std::sqrt(number); };
  if (isa<ReciprocalOp>(op))
    return [](double number) { return 1.0 / number; };
  return {};
}

static bool isFloat(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

SmallVector<Carried, 1> mlir::binade::findCarried(Value value) {
  SmallVector<Carried, 1> found;
  using Make = std::function<double(double)>;
  SmallVector<std::pair<Value, Make>> worklist = {
      {value, [](double number) { return number; }}};
  llvm::SmallDenseSet<Value, 8> seen;
  while (!worklist.empty() && seen.size() < kMaxCarriers) {
    auto [next, outer] = worklist.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op || op->getNumResults() != 1 || !seen.insert(next).second)
      continue;
    for (OpOperand &operand : op->getOpOperands()) {
      Make inner = isFloat(operand.get()) ? getCarrying(operand) : Make();
      if (!inner)
        continue;
      Make make = [outer, inner](double number) {
        return outer(inner(number));
      };
      if (operand.get().getDefiningOp<ConstantOp>())
        found.push_back({operand.get(), &operand, make});
      else
        worklist.push_back({operand.get(), make});
    }
  }
  return found;
}

bool mlir::binade::isSingularAtZero(OpOperand &use) {
  Operation *op = use.getOwner();
  return isa<LogOp, ReciprocalOp, SqrtOp, PowOp>(op) ||
         (isa<DivOp>(op) && use.getOperandNumber() == 1);
}
