//===- SumInOrder.cpp - Sums in a fixed order -----------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/SumInOrderOp.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/SumInOrder.cpp.inc"

/// The largest number of elements: a kernel has an instruction for each.
static constexpr int64_t kMaxTerms = 128;

Schedule SumInOrderOp::getSchedule() { return Schedule::Elementwise; }

/// Elements along the axis must not be separated.
std::optional<Rows> SumInOrderOp::getRows() { return std::nullopt; }

LogicalResult SumInOrderOp::verify() {
  auto axis = static_cast<int64_t>(getAxis());
  RankedTensorType x = getTensor(getX()), y = getTensor(getY());
  if (axis >= x.getRank()) // C1
    return emitOpError("expects an axis below ")
           << x.getRank() << ", the rank of " << x << ", got " << axis;
  if (x.getDimSize(axis) < 1 || x.getDimSize(axis) > kMaxTerms) // C1
    return emitOpError("expects 1 to ")
           << kMaxTerms << " elements along axis " << axis << ", got " << x;
  SmallVector<int64_t> shape(x.getShape());
  shape[axis] = 1;
  if (y.getShape() != ArrayRef(shape)) // C2
    return emitOpError("expects a result of type ")
           << x.clone(shape) << ", got " << y;
  return success();
}

/// Returns `count` elements of `x` along `axis`, from `first` on.
static Value takePart(ImplicitLocOpBuilder &b, Value x, int64_t axis,
                      int64_t first, int64_t count) {
  RankedTensorType type = getTensor(x);
  SmallVector<int64_t> shape(type.getShape()), offsets(type.getRank(), 0),
      strides(type.getRank(), 1);
  shape[axis] = count;
  offsets[axis] = first;
  return SliceOp::create(b, type.clone(shape), x, offsets, strides);
}

/// Returns the sum of both halves of `x` along `axis`.
static Value addHalves(ImplicitLocOpBuilder &b, Value x, int64_t axis) {
  int64_t size = getTensor(x).getDimSize(axis),
          half = llvm::PowerOf2Ceil(size) / 2;
  Value low = takePart(b, x, axis, 0, half),
        high = takePart(b, x, axis, half, size - half);
  SmallVector<int64_t> starts(getTensor(x).getRank(), 0),
      steps(starts.size(), 1);
  if (high.getType() != low.getType())
    high = PadOp::create(b, low.getType(), high, starts, steps);
  return AddOp::create(b, low, high);
}

FailureOr<SmallVector<Value>> SumInOrderOp::decompose(ImplicitLocOpBuilder &b) {
  auto axis = static_cast<int64_t>(getAxis());
  Value x = getX();
  if (getByHalves()) {
    while (getTensor(x).getDimSize(axis) > 1)
      x = addHalves(b, x, axis);
    return SmallVector<Value>{x};
  }
  Value sum = takePart(b, x, axis, 0, 1);
  for (int64_t i = 1, e = getTensor(x).getDimSize(axis); i < e; ++i)
    sum = AddOp::create(b, sum, takePart(b, x, axis, i, 1));
  return SmallVector<Value>{sum};
}
