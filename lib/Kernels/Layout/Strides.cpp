//===- Strides.cpp - Strides of moved values ------------------------------===//

#include "Strides.h"
#include "../Plan/LibraryCalls.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;

std::vector<int64_t> mlir::binade::getStrides(ArrayRef<int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

bool mlir::binade::isStrided(Operation *op) {
  return isa_and_present<TransposeOp, SliceOp>(op);
}

bool mlir::binade::isElided(Operation *op) {
  return op && op->hasAttr(kElidedAttr);
}

bool mlir::binade::isElidedConcat(Operation *op) {
  return isa_and_present<ConcatOp>(op) && isElided(op);
}

/// Returns the strides of a reshape of `from` to `to`, or nothing.
static std::optional<SmallVector<int64_t>>
reshapeStrides(ArrayRef<int64_t> from, ArrayRef<int64_t> strides,
               ArrayRef<int64_t> to) {
  SmallVector<int64_t> result(to.size(), 1);
  if (ShapedType::getNumElements(to) == 0)
    return std::nullopt;
  // Matches runs of contiguous axes of both shapes, from the last axis on.
  size_t source = from.size(), target = to.size();
  while (source > 0) {
    int64_t step = strides[--source], count = from[source], covered = 1;
    while (source > 0 &&
           (from[source - 1] == 1 || strides[source - 1] == step * count))
      count *= from[--source];
    while (target > 0 && (covered < count || to[target - 1] == 1)) {
      result[--target] = step * covered;
      covered *= to[target];
    }
    if (covered != count)
      return std::nullopt;
  }
  return result;
}

/// Returns the place of an operand of an elided concatenation in its result.
static Strided getPart(OpOperand &operand) {
  auto concat = cast<ConcatOp>(operand.getOwner());
  Strided part{concat.getResult(), 0,
               llvm::to_vector(getStrides(getTensor(concat).getShape()))};
  int64_t axis = concat.getAxis();
  for (Value before : concat.getInputs().take_front(operand.getOperandNumber()))
    part.offset += getTensor(before).getDimSize(axis) * part.strides[axis];
  return part;
}

std::optional<Strided> mlir::binade::findWrittenPlace(Value value) {
  ArrayRef<int64_t> shape = getTensor(value).getShape();
  Strided own{value, 0, llvm::to_vector(getStrides(shape))};
  auto result = dyn_cast<OpResult>(value);
  if (!value.hasOneUse() || ShapedType::getNumElements(shape) == 0 ||
      !(result && (hasStrides(result) || isView(result.getOwner()))))
    return own;
  OpOperand &use = *value.getUses().begin();
  Operation *user = use.getOwner();
  if (isElidedConcat(user))
    return getPart(use);
  if (!isView(user) || !isMovement(user) || isa<SliceOp>(user))
    return own;
  std::optional<Strided> moved = findWrittenPlace(user->getResult(0));
  if (!moved)
    return std::nullopt;
  if (auto transpose = dyn_cast<TransposeOp>(user)) {
    for (auto [axis, from] : llvm::enumerate(transpose.getPermutation()))
      own.strides[from] = moved->strides[axis];
  } else {
    auto strides = reshapeStrides(getTensor(user->getResult(0)).getShape(),
                                  moved->strides, shape);
    if (!strides)
      return std::nullopt;
    own.strides = std::move(*strides);
  }
  own.offset = moved->offset;
  if (moved->base != user->getResult(0))
    own.base = moved->base;
  return own;
}

std::optional<Strided>
mlir::binade::findStrides(Value value,
                          function_ref<bool(Operation *)> isElided) {
  Operation *op = value.getDefiningOp();
  bool isOne = op && isStrided(op) && isElided(op);
  if (!isOne && !isView(op))
    return findWrittenPlace(value);
  std::optional<Strided> found = findStrides(op->getOperand(0), isElided);
  if (!found)
    return std::nullopt;
  if (!isOne) {
    auto strides = reshapeStrides(getTensor(op->getOperand(0)).getShape(),
                                  found->strides, getTensor(value).getShape());
    if (!strides)
      return std::nullopt;
    found->strides = std::move(*strides);
  } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
    found->strides =
        applyPermutation(found->strides, transpose.getPermutation());
  } else {
    auto slice = cast<SliceOp>(op);
    for (auto [stride, offset, step] :
         llvm::zip(found->strides, slice.getOffsets(), slice.getStrides())) {
      found->offset += offset * stride;
      stride *= step;
    }
  }
  return found;
}
