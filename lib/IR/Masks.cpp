//===- Masks.cpp - Constants that mask elements ---------------------------===//

#include "binade/IR/Masks.h"
#include "binade/IR/Build.h"
#include "binade/IR/Movement.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// A bound of at least this magnitude has no effect.
static constexpr double kUnbounded = 1e38;
/// A factor of at least this magnitude turns an indicator into a mask; smaller
/// ones scale scores.
static constexpr double kMinFactor = 1e8;
/// The maximum number of ops between a mask and the op that ignores masked
/// elements.
static constexpr unsigned kMaxOps = 256;

namespace {
/// A value that a mask is part of, and whether the mask is negative there.
struct Masked {
  Value value;
  bool isNegative;
};
} // namespace

/// As AlgebraOpInterface::getSign; 1 for ops that only move elements.
static std::optional<double> getSign(OpOperand &use) {
  if (isMovement(use.getOwner()))
    return 1.0;
  auto op = dyn_cast<AlgebraOpInterface>(use.getOwner());
  return op ? op.getSign(use.getOperandNumber()) : std::nullopt;
}

/// Whether `op` multiplies its operands element by element.
static bool isElementwiseProduct(Operation *op) {
  auto algebra = dyn_cast<AlgebraOpInterface>(op);
  auto reader = dyn_cast<PrecisionOpInterface>(op);
  return algebra && algebra.getLinearity() == Linearity::Product && reader &&
         reader.isFactor(0);
}

/// Returns the result of the op of `use`, an operand with a mask, if the result
/// has the mask, too.
static std::optional<Masked> follow(OpOperand &use, bool isNegative,
                                    double magnitude) {
  Operation *op = use.getOwner();
  if (op->getNumResults() != 1)
    return std::nullopt;
  if (std::optional<double> sign = getSign(use))
    return Masked{op->getResult(0), isNegative != (*sign < 0)};
  if (isElementwiseProduct(op) && magnitude >= kMinFactor)
    return Masked{op->getResult(0), isNegative};
  return std::nullopt;
}

bool mlir::binade::isMask(OpOperand &use, double number) {
  double magnitude = std::abs(number);
  auto algebra = dyn_cast<AlgebraOpInterface>(use.getOwner());
  if (algebra && algebra.isBound() && magnitude >= kUnbounded)
    return true;
  SmallVector<std::pair<OpOperand *, bool>> worklist = {{&use, number < 0}};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!worklist.empty() && seen.size() < kMaxOps) {
    auto [current, isNegative] = worklist.pop_back_val();
    Operation *op = current->getOwner();
    auto reader = dyn_cast<PrecisionOpInterface>(op);
    if (isNegative && reader && reader.ignoresMasked())
      return true;
    if (!seen.insert(op).second)
      continue;
    if (std::optional<Masked> masked = follow(*current, isNegative, magnitude))
      for (OpOperand &next : masked->value.getUses())
        worklist.push_back({&next, masked->isNegative});
  }
  return false;
}
