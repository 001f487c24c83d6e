//===- AttentionMath.cpp - Scores and probabilities -----------------------===//

#include "AttentionMath.h"
#include "binade/IR/Accuracy.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::attention;

Value attention::broadcastRows(ImplicitLocOpBuilder &b, Value x, Value like) {
  RankedTensorType type = getTensor(like);
  return buildBroadcast(
      b, x, llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1)),
      type.getShape());
}

/// Returns the axes along which `x` is broadcast to `shape`, which has the same
/// rank.
static SmallVector<int64_t> getBroadcastAxes(Value x, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> axes;
  for (auto [axis, own] : llvm::enumerate(getTensor(x).getShape()))
    if (own != shape[axis])
      axes.push_back(axis);
  return axes;
}

Value attention::broadcastUnits(ImplicitLocOpBuilder &b, Value x,
                                ArrayRef<int64_t> shape) {
  if (getTensor(x).getShape() == shape)
    return x;
  int64_t rank = shape.size();
  return buildBroadcast(b, x, llvm::to_vector(llvm::seq<int64_t>(0, rank)),
                        shape);
}

Value attention::sumBroadcast(ImplicitLocOpBuilder &b, Value x, Value like) {
  SmallVector<int64_t> axes = getBroadcastAxes(like, getTensor(x).getShape());
  if (axes.empty())
    return x;
  return buildReshape(b, ReduceSumOp::create(b, x, axes),
                      getTensor(like).getShape());
}

Value AttentionMath::multiply(ImplicitLocOpBuilder &b, Value lhs, Value rhs,
                              bool transposeLhs, bool transposeRhs,
                              Type element) const {
  SmallVector<int64_t> shape(getTensor(lhs).getShape());
  int64_t rank = shape.size();
  shape[rank - 2] = getTensor(lhs).getDimSize(rank - (transposeLhs ? 1 : 2));
  shape[rank - 1] = getTensor(rhs).getDimSize(rank - (transposeRhs ? 2 : 1));
  return MatmulOp::create(b, RankedTensorType::get(shape, element), lhs, rhs,
                          Value(), transposeLhs, transposeRhs, precision);
}

/// `positions` are those of the queries; if null, they count from 0.
Scores AttentionMath::buildScores(ImplicitLocOpBuilder &b, Value query,
                                  Value key, const Extras &extras,
                                  Value positions) const {
  Value scores =
      scaleBy(b, multiply(b, query, key, false, true, b.getF32Type()), scale);
  RankedTensorType type = getTensor(scores);
  Value tangent;
  if (softcap > 0.0) {
    tangent = TanhOp::create(
        b, DivOp::create(b, scores, buildSplat(b, type, softcap)));
    scores = scaleBy(b, tangent, softcap);
  }
  Value bias;
  for (Value x : extras.biases) {
    x = broadcastUnits(b, buildCast(b, x, b.getF32Type()), type.getShape());
    bias = bias ? Value(AddOp::create(b, bias, x)) : x;
  }
  if (bias)
    scores = AddOp::create(b, scores, bias);
  if (extras.mask)
    scores =
        SelectOp::create(b, broadcastUnits(b, extras.mask, type.getShape()),
                         scores, buildSplat(b, type, fill));
  if (!causal)
    return {scores, tangent};
  auto indices = RankedTensorType::get(type.getShape(), b.getI32Type());
  int64_t rank = type.getRank();
  Value row = positions
                  ? broadcastRows(b, positions, scores)
                  : IotaOp::create(b, indices, b.getI64IntegerAttr(rank - 2));
  Value column = IotaOp::create(b, indices, b.getI64IntegerAttr(rank - 1));
  Value visible = CompareOp::create(b, column, row, Comparison::LessEqual);
  scores = SelectOp::create(b, visible, scores, buildSplat(b, type, -INFINITY));
  return {scores, tangent};
}

std::pair<Value, Value> AttentionMath::buildSoftmax(ImplicitLocOpBuilder &b,
                                                    Value scores) const {
  int64_t last = getTensor(scores).getRank() - 1;
  Value maximum = ReduceMaxOp::create(b, scores, last);
  Value e = ExpOp::create(
      b, SubOp::create(b, scores, broadcastRows(b, maximum, scores)));
  Value total = ReduceSumOp::create(b, e, last);
  Value share = ReciprocalOp::create(b, total);
  Value p = MulOp::create(b, e, broadcastRows(b, share, e));
  Value lse = AddOp::create(b, maximum, LogOp::create(b, total));
  if (zeroHidden) {
    Value none = buildSplat(b, maximum.getType(), -INFINITY);
    Value isHidden = CompareOp::create(b, maximum, none, Comparison::Equal);
    p = zeroWhere(b, broadcastRows(b, isHidden, p), p);
    lse = SelectOp::create(b, isHidden, none, lse);
  }
  return {p, lse};
}

Value AttentionMath::rebuildSoftmax(ImplicitLocOpBuilder &b, Value scores,
                                    Value lse) const {
  if (!isExact)
    return buildSoftmax(b, scores).first;
  auto exponential =
      ExpOp::create(b, SubOp::create(b, scores, broadcastRows(b, lse, scores)));
  // Probabilities and gradients of scores are rounded before they multiply.
  if (FloatType accuracy = getAccuracyFor(compute))
    exponential->setAttr(kAccuracyAttr, TypeAttr::get(accuracy));
  Value p = exponential;
  if (zeroHidden) {
    Value none = buildSplat(b, lse.getType(), -INFINITY);
    Value isHidden = CompareOp::create(b, lse, none, Comparison::Equal);
    p = zeroWhere(b, broadcastRows(b, isHidden, p), p);
  }
  return p;
}

Value AttentionMath::buildDropped(ImplicitLocOpBuilder &b, Value x,
                                  const Extras &extras) const {
  if (!extras.rng)
    return x;
  RankedTensorType type = getTensor(x);
  auto indices = RankedTensorType::get(type.getShape(), b.getI64Type());
  int64_t last = type.getRank() - 1;
  auto keys = static_cast<double>(type.getDimSize(last));
  Value row = broadcastRows(b, extras.rows, x);
  Value index =
      AddOp::create(b, MulOp::create(b, row, buildSplat(b, indices, keys)),
                    IotaOp::create(b, indices, b.getI64IntegerAttr(last)));
  return buildDropout(b, x, buildRandomValues(b, extras.rng, stream, index),
                      ratio);
}

Value AttentionMath::buildWeights(ImplicitLocOpBuilder &b, Value p,
                                  const Extras &extras) const {
  if (zeroNaN) {
    Value isNumber = CompareOp::create(b, p, p, Comparison::Equal);
    p = zeroWhere(b, NotOp::create(b, isNumber), p);
  }
  return round(b, buildDropped(b, p, extras));
}

Value AttentionMath::buildProductGradients(ImplicitLocOpBuilder &b, Value ds,
                                           Value tangent) const {
  if (tangent) {
    Value one = buildSplat(b, tangent.getType(), 1.0);
    Value square = MulOp::create(b, tangent, tangent);
    ds = MulOp::create(b, ds, SubOp::create(b, one, square));
  }
  return round(b, scaleBy(b, ds, scale));
}
