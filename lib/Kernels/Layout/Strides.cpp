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

TransposeOp mlir::binade::findTransposeOf(Value value) {
  auto findReader = [](Value value) -> Operation * {
    return value.hasOneUse() ? *value.getUsers().begin() : nullptr;
  };
  Operation *reader = findReader(value);
  if (auto reshape = dyn_cast_if_present<ReshapeOp>(reader))
    reader = findReader(reshape.getResult());
  return dyn_cast_if_present<TransposeOp>(reader);
}

std::optional<SmallVector<int64_t>>
mlir::binade::findWriteStrides(Value value, TransposeOp transpose) {
  std::vector<int64_t> moved =
      getStrides(getTensor(transpose.getResult()).getShape());
  SmallVector<int64_t> strides(moved.size());
  for (auto [axis, from] : llvm::enumerate(transpose.getPermutation()))
    strides[from] = moved[axis];
  return reshapeStrides(getTensor(transpose.getX()).getShape(), strides,
                        getTensor(value).getShape());
}

/// Returns the strides of a value. A record writes its result in the order of
/// the elided transpose that reads it.
static SmallVector<int64_t> getOwnStrides(Value value) {
  auto result = dyn_cast<OpResult>(value);
  TransposeOp transpose =
      result && hasStrides(result) ? findTransposeOf(value) : TransposeOp();
  if (isElided(transpose))
    return *findWriteStrides(value, transpose);
  return llvm::to_vector(getStrides(getTensor(value).getShape()));
}

std::optional<Strided>
mlir::binade::findStrides(Value value,
                          function_ref<bool(Operation *)> isElided) {
  Operation *op = value.getDefiningOp();
  bool isOne = op && isElided(op);
  if (!isOne && !isView(op))
    return Strided{value, 0, getOwnStrides(value)};
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
