//===- Movement.cpp - Ops that only move data -----------------------------===//

#include "binade/IR/Movement.h"
#include "binade/IR/TransposedMatrices.h"

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

/// A thread transposes squares with sides of so many elements.
static constexpr int64_t kSquare = 4;
/// Minimum rows and columns of matrices with wider elements than 8 bits: if a
/// tile is nearly empty, threads read elements from the operand instead.
static constexpr int64_t kMinSide = 32;

std::optional<Matrices> mlir::binade::findTransposedMatrices(Operation *op) {
  auto transpose = dyn_cast_or_null<TransposeOp>(op);
  if (!transpose)
    return std::nullopt;
  unsigned width = getTensor(transpose).getElementTypeBitWidth();
  if (width != 8 && width != 16 && width != 32)
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
  int64_t side = width == 8 ? 0 : kMinSide;
  bool hasSquares = found.rows % kSquare == 0 && found.columns % kSquare == 0;
  if (!hasSquares || std::min(found.rows, found.columns) < side)
    return std::nullopt;
  return found;
}

std::optional<Matrices> mlir::binade::findTransposedCopy(Operation *op) {
  std::optional<Matrices> found = findTransposedMatrices(op);
  if (found && getTensor(op->getResult(0)).getElementTypeBitWidth() == 8)
    return found;
  return std::nullopt;
}

Operation *mlir::binade::findFirstUser(Value value) {
  Operation *first = nullptr;
  for (Operation *user : value.getUsers())
    if (!first || user->isBeforeInBlock(first))
      first = user;
  return first;
}
