//===- Movement.cpp - Ops that only move data -----------------------------===//

#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

static bool hasSchedule(Operation *op, Schedule schedule) {
  auto kernelOp = dyn_cast_or_null<KernelOpInterface>(op);
  return kernelOp && kernelOp.getSchedule() == schedule;
}

bool mlir::binade::isView(Operation *op) {
  return hasSchedule(op, Schedule::View) && op->getNumOperands() == 1;
}

Value mlir::binade::findBase(Value value) {
  while (isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

bool mlir::binade::isMovement(Operation *op) {
  return (isView(op) && !isa<SaveOp>(op)) || hasSchedule(op, Schedule::Permute);
}

uint64_t mlir::binade::getByteSize(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() *
         llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
}

RankedTensorType mlir::binade::getTensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

int64_t mlir::binade::getNumElements(Value value) {
  return getTensor(value).getNumElements();
}

/// Number of 8-bit elements in a word.
static constexpr int64_t kCodesOfWord = 4;

std::optional<Matrices> mlir::binade::findTransposedCopy(Operation *op) {
  auto transpose = dyn_cast_or_null<TransposeOp>(op);
  if (!transpose || getTensor(transpose).getElementTypeBitWidth() != 8)
    return std::nullopt;
  // The order must be: leading axes that stay, then the axes of columns, then
  // those of rows.
  ArrayRef<int64_t> order = transpose.getPermutation();
  auto rank = static_cast<int64_t>(order.size()), first = int64_t(0);
  while (first < rank && order[first] == first)
    ++first;
  if (first == rank)
    return std::nullopt;
  int64_t split = order[first];
  for (int64_t axis = first; axis < rank; ++axis) {
    int64_t from = axis - first + split;
    if (order[axis] != (from < rank ? from : from - rank + first))
      return std::nullopt;
  }
  ArrayRef<int64_t> shape = getTensor(transpose.getX()).getShape();
  auto count = [&](int64_t begin, int64_t end) {
    return ShapedType::getNumElements(shape.slice(begin, end - begin));
  };
  Matrices found = {count(0, first), count(first, split), count(split, rank)};
  if (found.rows % kCodesOfWord != 0 || found.columns % kCodesOfWord != 0)
    return std::nullopt;
  return found;
}

Operation *mlir::binade::findFirstUser(Value value) {
  Operation *first = nullptr;
  for (Operation *user : value.getUsers())
    if (!first || user->isBeforeInBlock(first))
      first = user;
  return first;
}
