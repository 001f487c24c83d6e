//===- Shape.cpp - Constants and data movement ----------------------------===//

#include "Families.h"
#include "Walk.h"

using namespace mlir;
using namespace mlir::binade;

static void copyElement(Tensor &to, int64_t toIndex, const Tensor &from,
                        int64_t fromIndex) {
  if (to.isFloat())
    to[toIndex] = from[fromIndex];
  else
    to.getIntegers()[toIndex] = from.getIntegers()[fromIndex];
}

/// Fills the result with the operand's elements that `walk` visits.
static void gatherFrom(const Tensor &x, Evaluation &e, const TensorWalk &walk) {
  Tensor &y = e.result();
  auto copy = [&](auto into, auto of) {
    walk.forEach([&](int64_t to, int64_t from) { into[to] = of[from]; });
  };
  if (y.isFloat())
    copy(y.getFloats(), x.getFloats());
  else
    copy(y.getIntegers(), x.getIntegers());
}

static LogicalResult evaluateConstant(ConstantOp op, Evaluation &e) {
  FailureOr<Tensor> value = e.getContext().load(op, op.getValue());
  if (failed(value))
    return failure();
  Tensor &y = e.result();
  if (value->getType() == y.getType()) {
    e.setResult(0, std::make_shared<Tensor>(std::move(*value)));
    return success();
  }
  // In a multi-tensor kernel, the constant is a splat of any length.
  if (!op.getValue() || !isa<SplatElementsAttr>(op.getValue()))
    return op.emitOpError("must be a splat in a multi-tensor kernel");
  TensorWalk{SmallVector<int64_t>(y.getShape()),
             SmallVector<int64_t>(y.getRank(), 0)}
      .forEach(
          [&](int64_t to, int64_t from) { copyElement(y, to, *value, from); });
  return success();
}

static void evaluateReshape(ReshapeOp op, Evaluation &e) {
  gatherFrom(e[op.getX()], e, TensorWalk{{e.result().getNumElements()}, {1}});
}

static void evaluateTranspose(TransposeOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  SmallVector<int64_t> strides = getRowMajorStrides(x.getShape());
  TensorWalk walk{SmallVector<int64_t>(e.result().getShape()), {}};
  for (int64_t axis : op.getPermutation())
    walk.strides.push_back(strides[axis]);
  gatherFrom(x, e, walk);
}

static void evaluateBroadcast(BroadcastOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  SmallVector<int64_t> strides = getRowMajorStrides(x.getShape());
  TensorWalk walk{SmallVector<int64_t>(e.result().getShape()),
                  SmallVector<int64_t>(e.result().getRank(), 0)};
  for (auto [from, to] : llvm::enumerate(op.getAxes()))
    if (x.getDimSize(from) != 1)
      walk.strides[to] = strides[from];
  gatherFrom(x, e, walk);
}

static void evaluateSlice(SliceOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  gatherFrom(x, e,
             TensorWalk::overBox(e.result().getShape(), x.getShape(),
                                 op.getOffsets(), op.getStrides()));
}

static void evaluatePad(PadOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  Tensor &y = e.result();
  TensorWalk::overBox(x.getShape(), y.getShape(), op.getOffsets(),
                      op.getStrides())
      .forEach([&](int64_t from, int64_t to) { copyElement(y, to, x, from); });
}

static void evaluateConcat(ConcatOp op, Evaluation &e) {
  Tensor &y = e.result();
  SmallVector<int64_t> offsets(y.getRank(), 0), steps(y.getRank(), 1);
  for (const TensorRef &x : e.getOperands()) {
    TensorWalk::overBox(x->getShape(), y.getShape(), offsets, steps)
        .forEach(
            [&](int64_t from, int64_t to) { copyElement(y, to, *x, from); });
    offsets[op.getAxis()] += x->getDimSize(op.getAxis());
  }
}

static void evaluateIota(IotaOp op, Evaluation &e) {
  Tensor &y = e.result();
  TensorWalk walk{SmallVector<int64_t>(y.getShape()),
                  SmallVector<int64_t>(y.getRank(), 0)};
  if (op.getAxis())
    walk.strides[*op.getAxis()] = 1;
  else
    walk.strides = getRowMajorStrides(y.getShape());
  walk.forEach([&](int64_t i, int64_t number) { y.getIntegers()[i] = number; });
}

void mlir::binade::addShape(Reference &reference) {
  reference.add<ConstantOp>(evaluateConstant);
  reference.add<ReshapeOp>(evaluateReshape);
  reference.add<TransposeOp>(evaluateTranspose);
  reference.add<BroadcastOp>(evaluateBroadcast);
  reference.add<SliceOp>(evaluateSlice);
  reference.add<PadOp>(evaluatePad);
  reference.add<ConcatOp>(evaluateConcat);
  reference.add<IotaOp>(evaluateIota);
}
