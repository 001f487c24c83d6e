//===- Views.cpp - Strided views of tensors -------------------------------===//

#include "Views.h"
#include "binade/IR/Movement.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::binade;

SmallVector<int64_t> mlir::binade::getRowMajor(ArrayRef<int64_t> frame) {
  SmallVector<int64_t> strides(frame.size(), 0);
  int64_t stride = 1;
  for (size_t axis = frame.size(); axis-- > 0; stride *= frame[axis])
    if (frame[axis] != 1)
      strides[axis] = stride;
  return strides;
}

namespace {
/// Converts strides over the result of a copy to strides over its operand. A
/// step along axis i of the result is a step of `from[i]` elements of the
/// operand.
class Copy {
public:
  Copy(ArrayRef<int64_t> shape, ArrayRef<int64_t> from)
      : shape(shape), from(from), own(getRowMajor(shape)),
        furthest(shape.size(), 0) {}

  std::optional<SmallVector<int64_t>> apply(ArrayRef<int64_t> strides,
                                            ArrayRef<int64_t> frame) {
    SmallVector<int64_t> changed;
    for (auto [stride, length] : llvm::zip_equal(strides, frame)) {
      std::optional<int64_t> own = stride ? change(stride, length) : 0;
      if (!own)
        return std::nullopt;
      changed.push_back(*own);
    }
    // A view must not run beyond the end of an axis.
    for (auto [last, length] : llvm::zip_equal(furthest, shape))
      if (last >= length)
        return std::nullopt;
    return changed;
  }

private:
  /// Converts `length` steps of `stride` elements, within one axis of the
  /// result or across the boundary of two.
  std::optional<int64_t> change(int64_t stride, int64_t length) {
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (own[axis] == 0 || stride >= own[axis] * shape[axis])
        continue;
      if (stride % own[axis] != 0)
        return std::nullopt;
      int64_t step = stride / own[axis], changed = step * from[axis];
      if ((length - 1) * step < shape[axis]) {
        furthest[axis] += (length - 1) * step;
        return changed;
      }
      int64_t here = shape[axis] / step;
      if (shape[axis] % step != 0 || length % here != 0)
        return std::nullopt;
      furthest[axis] += (here - 1) * step;
      std::optional<int64_t> rest = change(stride * here, length / here);
      return rest == changed * here ? std::optional(changed) : std::nullopt;
    }
    return std::nullopt;
  }

  ArrayRef<int64_t> shape, from;
  SmallVector<int64_t> own;
  SmallVector<int64_t> furthest; ///< The largest index reached along each axis.
};
} // namespace

/// Returns the stride in the operand of `op` along each axis of its result.
static SmallVector<int64_t> getSteps(BroadcastOp op) {
  SmallVector<int64_t> steps(getTensor(op.getResult()).getRank(), 0);
  for (auto [axis, stride] : llvm::zip_equal(
           op.getAxes(), getRowMajor(getTensor(op.getX()).getShape())))
    steps[axis] = stride;
  return steps;
}

static SmallVector<int64_t> getSteps(TransposeOp op) {
  SmallVector<int64_t> own = getRowMajor(getTensor(op.getX()).getShape());
  return llvm::map_to_vector(op.getPermutation(),
                             [&](int64_t axis) { return own[axis]; });
}

/// Whether `op` gathers all rows of its table in order. Exporters do this to
/// change the shape of a tensor by indices.
static bool isInOrder(GatherOp op) {
  DenseElementsAttr indices;
  if (getNumElements(op.getIndices()) !=
          getTensor(op.getTable()).getDimSize(0) ||
      !matchPattern(op.getIndices(), m_Constant(&indices)))
    return false;
  uint64_t next = 0;
  return llvm::all_of(indices.getValues<APInt>(),
                      [&](const APInt &index) { return index == next++; });
}

View mlir::binade::trace(View view, ArrayRef<int64_t> frame,
                         SmallVectorImpl<Operation *> &passed) {
  while (Operation *op = view.value.getDefiningOp()) {
    std::optional<SmallVector<int64_t>> strides;
    ArrayRef<int64_t> shape = getTensor(view.value).getShape();
    auto gather = dyn_cast<GatherOp>(op);
    if (isa<ReshapeOp>(op) || (gather && isInOrder(gather)))
      strides = view.strides;
    else if (auto broadcast = dyn_cast<BroadcastOp>(op))
      strides = Copy(shape, getSteps(broadcast)).apply(view.strides, frame);
    else if (auto transpose = dyn_cast<TransposeOp>(op))
      strides = Copy(shape, getSteps(transpose)).apply(view.strides, frame);
    if (!strides)
      break;
    passed.push_back(op);
    view = {op->getOperand(0), *strides};
  }
  return view;
}

View mlir::binade::trace(View view, ArrayRef<int64_t> frame) {
  SmallVector<Operation *> passed;
  return trace(std::move(view), frame, passed);
}

View mlir::binade::traceWhole(Value value, ArrayRef<int64_t> frame) {
  return trace({value, getRowMajor(frame)}, frame);
}
