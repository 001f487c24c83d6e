//===- RowRegion.cpp - Regions of ops that rows can tile ------------------===//

#include "RowRegion.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Watch.h"
#include "mlir/IR/Matchers.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

std::optional<Rows> mlir::binade::getRows(Operation *op) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  return kernelOp ? kernelOp.getRows() : std::nullopt;
}

SplatElementsAttr mlir::binade::getSplatElements(Value value) {
  SplatElementsAttr splat;
  matchPattern(value, m_Constant(&splat));
  return splat;
}

RowRegion::RowRegion(Value large)
    : large(large), minElements(getTensor(large).getNumElements() / 2),
      block(large.getParentBlock()) {}

bool RowRegion::isLarge(Value value) const {
  return getTensor(value).getNumElements() >= minElements;
}

bool RowRegion::isUsedOutside(Value value) const {
  return !llvm::all_of(value.getUsers(),
                       [&](Operation *user) { return contains(user); });
}

bool RowRegion::addValue(Value value) {
  if (!inside.insert(value).second)
    return true;
  Operation *producer = value.getDefiningOp();
  return producer && addOp(producer) &&
         llvm::all_of(value.getUsers(), [&](Operation *user) {
           return findEvery(user) || addOp(user);
         });
}

bool RowRegion::addOp(Operation *op) {
  constexpr unsigned kMaxOps = 64;
  if (op->getBlock() != block || ops.size() > kMaxOps)
    return false;
  if (!ops.insert(op))
    return true;
  std::optional<Rows> rows = getRows(op);
  if (!rows)
    return false;
  for (auto [operand, isCut] : llvm::zip(op->getOperands(), rows->cut))
    if (isCut && isLarge(operand) && operand.getDefiningOp() &&
        !getSplatElements(operand) && !addValue(operand))
      return false;
  return rows->added || llvm::all_of(op->getResults(), [&](Value result) {
           return !isLarge(result) || addValue(result);
         });
}

/// Adds the ops between, which read results of the region's ops and are read by
/// them.
bool RowRegion::close() {
  // Ops that are far apart, as in the forward and the backward pass, share
  // nothing short-lived.
  constexpr unsigned kWindow = 256;
  for (;;) {
    sort();
    SmallVector<Operation *> window;
    for (Operation *op = ops.front(); window.size() < kWindow;
         op = op->getNextNode()) {
      window.push_back(op);
      if (op == ops.back())
        break;
    }
    if (window.back() != ops.back())
      return false;
    DenseSet<Operation *> after, before;
    for (Operation *op : window)
      if (llvm::any_of(op->getOperands(), [&](Value operand) {
            Operation *producer = operand.getDefiningOp();
            return contains(producer) || after.contains(producer);
          }))
        after.insert(op);
    for (Operation *op : llvm::reverse(window))
      if (llvm::any_of(op->getUsers(), [&](Operation *user) {
            return contains(user) || before.contains(user);
          }))
        before.insert(op);
    size_t size = ops.size();
    readers.clear();
    for (Operation *op : window) {
      if (contains(op) || !after.contains(op))
        continue;
      if (!before.contains(op))
        readers.push_back(op);
      else if (!addOp(op))
        return false;
    }
    if (ops.size() == size)
      return isConsistent();
  }
}

/// Whether no op reads rows of other iterations, or sums before they are
/// complete.
bool RowRegion::isConsistent() const {
  return llvm::all_of(ops, [&](Operation *op) {
    std::optional<Rows> rows = getRows(op);
    for (auto [operand, isCut] : llvm::zip(op->getOperands(), rows->cut)) {
      Operation *producer = operand.getDefiningOp();
      if (contains(producer) && (!isCut || getRows(producer)->added))
        return false;
    }
    return true;
  });
}

void RowRegion::sort() {
  SmallVector<Operation *> sorted = ops.takeVector();
  llvm::sort(sorted,
             [](Operation *l, Operation *r) { return l->isBeforeInBlock(r); });
  ops.insert_range(sorted);
}

/// Returns the greatest common divisor of the sizes of all tiled first axes.
std::optional<int64_t> RowRegion::getLength() const {
  int64_t length = 0;
  auto add = [&](Value value) {
    if (getTensor(value).getRank() == 0)
      return false;
    length = std::gcd(length, getTensor(value).getDimSize(0));
    return true;
  };
  for (Operation *op : ops) {
    std::optional<Rows> rows = getRows(op);
    for (auto [operand, isCut] : llvm::zip(op->getOperands(), rows->cut))
      if (isCut && !add(operand))
        return std::nullopt;
    if (!rows->added && !llvm::all_of(op->getResults(), add))
      return std::nullopt;
  }
  return length;
}
