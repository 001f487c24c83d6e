//===- Hadamard.cpp - The Hadamard transform ------------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/HadamardOp.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Hadamard.cpp.inc"

Schedule HadamardOp::getSchedule() { return Schedule::Elementwise; }

/// Groups of columns must not be cut.
std::optional<Rows> HadamardOp::getRows() { return std::nullopt; }

LogicalResult HadamardOp::verify() {
  auto size = static_cast<int64_t>(getSize()),
       axis = static_cast<int64_t>(getAxis());
  if (!llvm::is_contained(kHadamardSizes, size)) // C1
    return emitOpError(
               "expects groups of 4, 8, 16, 32, 64 or 128 elements, got ")
           << size;
  RankedTensorType x = getTensor(getX()), y = getTensor(getY());
  if (x.getRank() < -axis || x.getDimSize(x.getRank() + axis) % size != 0) // C2
    return emitOpError("expects groups that divide axis ")
           << axis << " of " << x << ", got groups of " << size;
  if (getSigns() && getTensor(getSigns()).getShape() != ArrayRef(size)) // C3
    return emitOpError("expects a sign for each of ")
           << size << " elements, got " << getTensor(getSigns());
  if (x.getShape() != y.getShape()) // C4
    return emitOpError("expects a result of the shape of ")
           << x << ", got " << y;
  return success();
}

/// Returns half `which` of the middle axis of `x`, which has two elements.
static Value takeHalf(ImplicitLocOpBuilder &b, Value x, int64_t which) {
  ArrayRef<int64_t> shape = getTensor(x).getShape();
  Value half = SliceOp::create(
      b, getTensor(x).clone(ArrayRef<int64_t>{shape[0], 1, shape[2]}), x,
      ArrayRef<int64_t>{0, which, 0}, ArrayRef<int64_t>{1, 1, 1});
  return buildReshape(b, half, {shape[0], shape[2]});
}

/// Replaces elements that are `distance` apart by their sum and difference.
static Value addPairs(ImplicitLocOpBuilder &b, Value x, int64_t distance) {
  int64_t count = getNumElements(x);
  SmallVector<int64_t> shape = {count / (2 * distance), 2, distance};
  x = buildReshape(b, x, shape);
  Value low = takeHalf(b, x, 0), high = takeHalf(b, x, 1);
  auto spread = [&](Value half) {
    return buildBroadcast(b, half, {0, 2}, shape);
  };
  auto places = RankedTensorType::get(shape, b.getI64Type());
  Value place = IotaOp::create(b, places, b.getI64IntegerAttr(1));
  Value isLow = CompareOp::create(b, place, buildSplat(b, places, 0.0),
                                  Comparison::Equal);
  return SelectOp::create(b, isLow, spread(AddOp::create(b, low, high)),
                          spread(SubOp::create(b, low, high)));
}

FailureOr<SmallVector<Value>> HadamardOp::decompose(ImplicitLocOpBuilder &b) {
  ArrayRef<int64_t> shape = getTensor(getX()).getShape();
  auto size = static_cast<int64_t>(getSize()),
       axis = static_cast<int64_t>(getAxis());
  int64_t inner = axis == -1 ? 1 : shape.back();
  Value x = buildCast(b, getX(), b.getF32Type());
  if (getSigns()) {
    SmallVector<int64_t> groups = {getNumElements(x) / (size * inner), size,
                                   inner};
    x = buildReshape(b, x, groups);
    x = MulOp::create(b, x, buildBroadcast(b, getSigns(), {1}, groups));
  }
  for (int64_t distance = 1; distance < size; distance *= 2)
    x = addPairs(b, x, distance * inner);
  auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)));
  x = MulOp::create(b, x, buildSplat(b, x.getType(), factor));
  x = buildReshape(b, x, shape);
  return SmallVector<Value>{
      buildCast(b, x, getTensor(getY()).getElementType())};
}
