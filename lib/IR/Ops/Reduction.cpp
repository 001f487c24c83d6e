//===- Reduction.cpp - Reductions over axes -------------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Subgradient.h"

using namespace mlir;
using namespace mlir::binade;

/// Keeps the operand's layout; the kept axes stay in its order.
static Layouts chooseReduced(Operation *op, const Layouts &known,
                             ArrayRef<int64_t> reduced) {
  Layouts chosen(op);
  const Layout &from = chosen.operands.front() = known.operands.front();
  for (int64_t axis : from)
    if (!llvm::is_contained(reduced, axis))
      chosen.results.front().push_back(
          axis - llvm::count_if(reduced, [&](int64_t r) { return r < axis; }));
  return chosen;
}

#define GET_OP_CLASSES
#include "binade/IR/Ops/Reduction.cpp.inc"

/// Broadcasts `y`, the result of a reduction over `axes`, to the shape of `x`.
static Value broadcastBack(ImplicitLocOpBuilder &b, Value y, Value x,
                           ArrayRef<int64_t> axes) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(x.getType()).getShape();
  SmallVector<int64_t> kept;
  for (int64_t axis = 0, rank = shape.size(); axis < rank; ++axis)
    if (!llvm::is_contained(axes, axis))
      kept.push_back(axis);
  return buildBroadcast(b, y, kept, shape);
}

/// Returns the number of elements that one result of a reduction combines.
static int64_t countReduced(Value x, ArrayRef<int64_t> axes) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= type.getDimSize(axis);
  return count;
}

SmallVector<Value> ReduceSumOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                             ArrayRef<Value> cotangents) {
  return {broadcastBack(b, cotangents.front(), getX(), getAxes())};
}

SmallVector<Value> ReduceMeanOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                              ArrayRef<Value> cotangents) {
  Value dy = cotangents.front();
  Value count = buildSplat(b, dy.getType(), countReduced(getX(), getAxes()));
  return {broadcastBack(b, DivOp::create(b, dy, count), getX(), getAxes())};
}

FailureOr<SmallVector<Value>> ReduceMeanOp::decompose(ImplicitLocOpBuilder &b) {
  bool isDouble = getElementTypeOrSelf(getX().getType()).isF64();
  Value x = isDouble ? getX() : buildCast(b, getX(), b.getF32Type());
  Value sum = ReduceSumOp::create(b, x, getAxes());
  Value count = buildSplat(b, sum.getType(), countReduced(getX(), getAxes()));
  return SmallVector<Value>{buildCast(b, DivOp::create(b, sum, count),
                                      getElementTypeOrSelf(getY().getType()))};
}

/// Returns, for each element that `hit` marks, the number of elements of `x`
/// from it to the end, in row-major order; 0 for the others.
static Value countToEnd(ImplicitLocOpBuilder &b, Value x, Value hit) {
  auto type = cast<RankedTensorType>(x.getType());
  // An f32 can count to 2^24.
  int64_t size = type.getNumElements();
  Type number = size < (1 << 24) ? Type(b.getF32Type()) : b.getF64Type();
  Value place = buildCast(
      b, IotaOp::create(b, type.clone(b.getI64Type()), IntegerAttr()), number);
  Value end = buildSplat(b, place.getType(), static_cast<double>(size));
  Value zero = buildSplat(b, place.getType(), 0.0);
  return SelectOp::create(b, hit, SubOp::create(b, end, place), zero);
}

SmallVector<Value> ReduceMaxOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                             ArrayRef<Value> cotangents) {
  Value x = getX(), maximum = broadcastBack(b, getY(), x, getAxes());
  Value hit = CompareOp::create(b, x, maximum, Comparison::Equal);
  if (getTies(*this) == Ties::First) {
    Value zero = buildSplat(b, x.getType(), 0.0);
    Value toEnd = countToEnd(b, x, hit);
    Value most = ReduceMaxOp::create(b, toEnd, getAxes());
    Value isFirst = CompareOp::create(
        b, toEnd, broadcastBack(b, most, x, getAxes()), Comparison::Equal);
    isFirst = AndOp::create(b, hit, isFirst);
    Value dy = broadcastBack(b, cotangents.front(), x, getAxes());
    return {SelectOp::create(b, isFirst, dy, zero)};
  }
  Value one = buildSplat(b, x.getType(), 1.0);
  Value zero = buildSplat(b, x.getType(), 0.0);
  Value mask = SelectOp::create(b, hit, one, zero);
  Value ties = ReduceSumOp::create(b, mask, getAxes());
  Value share = DivOp::create(b, cotangents.front(), ties);
  return {MulOp::create(b, mask, broadcastBack(b, share, x, getAxes()))};
}

FailureOr<SmallVector<Value>>
ReduceMaxOp::buildWithoutElements(ImplicitLocOpBuilder &b) {
  return SmallVector<Value>{buildSplat(b, getType(), -INFINITY)};
}
