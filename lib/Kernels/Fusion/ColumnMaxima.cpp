//===- ColumnMaxima.cpp - Maxima by columns -------------------------------===//

#include "ColumnMaxima.h"
#include "Grouping.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

/// Calls `visit` for the values of as many elements as `value` that kernels
/// compute it from, and for `value`. Stops where `visit` returns false.
static void walkSources(Value value, llvm::function_ref<bool(Value)> visit) {
  llvm::SmallSetVector<Value, 8> pending;
  pending.insert(value);
  for (size_t next = 0; next < pending.size(); ++next) {
    Value source = pending[next];
    Operation *producer = source.getDefiningOp();
    if (!visit(source) || !producer || !isElementwiseKernel(producer))
      continue;
    for (Value operand : producer->getOperands())
      if (getNumElements(operand) == getNumElements(value))
        pending.insert(operand);
  }
}

/// Whether a kernel that iterates over rows computes `value`.
static bool isComputedByRows(Value value) {
  bool found = false;
  walkSources(value, [&](Value source) {
    Operation *producer = source.getDefiningOp();
    found |= producer && getSchedule(producer) == Schedule::RowReduction;
    return true;
  });
  return found;
}

/// Returns the op that reduces what `op`, a maximum of rows, leaves to a
/// scalar; null if others read it, too.
static Operation *findRest(Operation *op) {
  if (op->getNumResults() != 1 || !op->getResult(0).hasOneUse())
    return nullptr;
  Operation *rest = *op->getResult(0).getUsers().begin();
  bool isRest = rest->getName() == op->getName() && rest->hasAttr(kAxes) &&
                getTensor(rest->getResult(0)).getRank() == 0;
  return isRest ? rest : nullptr;
}

/// Whether an op sums columns of `value` or of what it is computed from.
static bool hasColumnSums(Value value) {
  bool found = false;
  walkSources(value, [&](Value source) {
    for (Operation *user : source.getUsers()) {
      // Kernels compute widening casts themselves.
      Operation *reader =
          isRecomputed(user) && isElementwiseKernel(user) && user->hasOneUse()
              ? *user->getUsers().begin()
              : user;
      found |= getSchedule(reader) == Schedule::ColumnReduction &&
               getTensor(reader->getOperand(0)).getShape() ==
                   getTensor(value).getShape();
    }
    // What others store is computed by another kernel.
    return true;
  });
  return found;
}

/// Whether `op` reduces rows by a function whose results do not depend on the
/// order of elements.
static bool isMaximumOfRows(Operation *op) {
  if (getSchedule(op) != Schedule::RowReduction || !op->hasAttr(kAxes) ||
      op->getNumOperands() != 1)
    return false;
  auto kernelOp = cast<KernelOpInterface>(op);
  int64_t rank = getTensor(op->getOperand(0)).getRank();
  return !kernelOp.sumsElements() && rank > 1 &&
         kernelOp.getReduced() == Reduced{{rank - 1}};
}

void mlir::binade::reduceMaximaByColumns(Block &block) {
  Builder b(block.getParentOp()->getContext());
  for (Operation &op : block) {
    Operation *rest = isMaximumOfRows(&op) ? findRest(&op) : nullptr;
    Value x = rest ? op.getOperand(0) : Value();
    if (!rest || isComputedByRows(x) || !hasColumnSums(x))
      continue;
    int64_t last = getTensor(x).getRank() - 1;
    op.setAttr(kAxes, b.getDenseI64ArrayAttr(
                          llvm::to_vector(llvm::seq<int64_t>(0, last))));
    Value result = op.getResult(0);
    result.setType(getTensor(result).clone({getTensor(x).getDimSize(last)}));
    rest->setAttr(kAxes, b.getDenseI64ArrayAttr({0}));
  }
}
