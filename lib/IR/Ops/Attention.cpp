//===- Attention.cpp - scaled dot-product attention -----------------------===//

#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Attention.cpp.inc"

bool AttentionOp::accumulates() { return true; }
bool AttentionGradOp::accumulates() { return true; }
Schedule AttentionOp::getSchedule() { return Schedule::Library; }
Schedule AttentionGradOp::getSchedule() { return Schedule::Library; }

FormatRole AttentionOp::getResultFormat(unsigned index) {
  return index == 0 ? FormatRole::Chosen : FormatRole::Wide;
}

FormatRole AttentionGradOp::getOperandFormat(unsigned index) {
  return index == 5 ? FormatRole::Wide : FormatRole::Chosen;
}

static RankedTensorType getTensor(Value x) {
  return cast<RankedTensorType>(x.getType());
}

/// The constraints on the three operands of attention.
template <typename Adaptor>
static LogicalResult verifyInputs(std::optional<Location> location,
                                  Adaptor adaptor) {
  RankedTensorType query = getTensor(adaptor.getQuery()),
                   key = getTensor(adaptor.getKey()),
                   value = getTensor(adaptor.getValue());
  int64_t rank = query.getRank();
  if (rank < 2 || key.getRank() != rank || value.getRank() != rank ||
      key.getShape().drop_back(2) != query.getShape().drop_back(2) ||
      value.getShape().drop_back(2) != query.getShape().drop_back(2) ||
      key.getDimSize(rank - 1) != query.getDimSize(rank - 1) ||
      value.getDimSize(rank - 2) != key.getDimSize(rank - 2)) // C1
    return emitOptionalError(location,
                             "expected query [..., N, D], key [..., K, D] and "
                             "value [..., K, E], got ",
                             query, ", ", key, " and ", value);
  if (adaptor.getCausal() &&
      query.getDimSize(rank - 2) != key.getDimSize(rank - 2)) // C2
    return emitOptionalError(location,
                             "causal attention needs as many queries "
                             "as keys, got ",
                             query.getDimSize(rank - 2), " and ",
                             key.getDimSize(rank - 2));
  return success();
}

/// [..., N, E].
template <typename Adaptor>
static SmallVector<int64_t> getResultShape(Adaptor adaptor) {
  SmallVector<int64_t> shape(getTensor(adaptor.getQuery()).getShape());
  shape.back() = getTensor(adaptor.getValue()).getShape().back();
  return shape;
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *context,
                                            std::optional<Location> location,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  if (failed(verifyInputs(location, adaptor)))
    return failure();
  RankedTensorType query = getTensor(adaptor.getQuery());
  types.push_back(query.clone(getResultShape(adaptor)));
  types.push_back(RankedTensorType::get(query.getShape().drop_back(),
                                        Float32Type::get(context)));
  return success();
}

bool AttentionOp::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
  return haveSameShapes(l, r);
}

SmallVector<Value> AttentionOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                             ArrayRef<Value> cotangents) {
  auto gradients = AttentionGradOp::create(b, cotangents.front(), getQuery(),
                                           getKey(), getValue(), getY(),
                                           getLse(), getScale(), getCausal());
  return llvm::to_vector_of<Value>(gradients.getResults());
}

LogicalResult AttentionGradOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  if (failed(verifyInputs(location, adaptor)))
    return failure();
  SmallVector<int64_t> shape = getResultShape(adaptor);
  ArrayRef<int64_t> rows = ArrayRef(shape).drop_back();
  if (failed(expectShape(location, "gradient", adaptor.getGradient().getType(),
                         shape)) ||
      failed(expectShape(location, "y", adaptor.getY().getType(), shape)) ||
      failed(expectShape(location, "lse", adaptor.getLse().getType(), rows)))
    return failure();
  for (Value x : {adaptor.getQuery(), adaptor.getKey(), adaptor.getValue()})
    types.push_back(x.getType());
  return success();
}

bool AttentionGradOp::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
  return haveSameShapes(l, r);
}

//===----------------------------------------------------------------------===//
// Decomposition into matmuls and row reductions
//===----------------------------------------------------------------------===//

/// scale query key^T in f32, -infinity where the mask hides a key.
static Value buildScores(ImplicitLocOpBuilder &b, Value query, Value key,
                         const APFloat &scale, bool causal) {
  RankedTensorType q = getTensor(query);
  int64_t rank = q.getRank();
  SmallVector<int64_t> shape(q.getShape());
  shape.back() = getTensor(key).getDimSize(rank - 2);
  auto type = RankedTensorType::get(shape, b.getF32Type());
  Value scores = MatmulOp::create(b, type, query, key, Value(),
                                  /*transpose_lhs=*/false,
                                  /*transpose_rhs=*/true);
  scores =
      MulOp::create(b, scores, buildSplat(b, type, scale.convertToDouble()));
  if (!causal)
    return scores;
  auto indices = RankedTensorType::get(shape, b.getI32Type());
  Value row = IotaOp::create(b, indices, b.getI64IntegerAttr(rank - 2));
  Value column = IotaOp::create(b, indices, b.getI64IntegerAttr(rank - 1));
  Value visible = CompareOp::create(b, column, row, Comparison::LessEqual);
  return SelectOp::create(b, visible, scores, buildSplat(b, type, -INFINITY));
}

static Value spreadRows(ImplicitLocOpBuilder &b, Value x, Value like) {
  RankedTensorType type = getTensor(like);
  return buildBroadcast(
      b, x, llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1)),
      type.getShape());
}

FailureOr<SmallVector<Value>> AttentionOp::decompose(ImplicitLocOpBuilder &b) {
  Value scores = buildScores(b, getQuery(), getKey(), getScale(), getCausal());
  int64_t last = getTensor(scores).getRank() - 1;
  Value maximum = ReduceMaxOp::create(b, scores, last);
  Value e = ExpOp::create(
      b, SubOp::create(b, scores, spreadRows(b, maximum, scores)));
  Value total = ReduceSumOp::create(b, e, last);
  Value p = DivOp::create(b, e, spreadRows(b, total, e));
  Value lse = AddOp::create(b, maximum, LogOp::create(b, total));
  Value narrow = buildCast(b, p, getElementTypeOrSelf(getValue().getType()));
  Value y = MatmulOp::create(b, getY().getType(), narrow, getValue(), Value(),
                             false, false);
  return SmallVector<Value>{y, lse};
}

FailureOr<SmallVector<Value>>
AttentionGradOp::decompose(ImplicitLocOpBuilder &b) {
  Value dy = getGradient();
  Type compute = getElementTypeOrSelf(getQuery().getType());
  Value scores = buildScores(b, getQuery(), getKey(), getScale(), getCausal());
  int64_t last = getTensor(scores).getRank() - 1;
  Value p = ExpOp::create(
      b, SubOp::create(b, scores, spreadRows(b, getLse(), scores)));
  Value dvalue = MatmulOp::create(b, getDvalue().getType(),
                                  buildCast(b, p, compute), dy, Value(),
                                  /*transpose_lhs=*/true, false);
  Value dp = MatmulOp::create(b, p.getType(), dy, getValue(), Value(), false,
                              /*transpose_rhs=*/true);
  Value product = MulOp::create(b, buildCast(b, dy, b.getF32Type()),
                                buildCast(b, getY(), b.getF32Type()));
  Value inner = ReduceSumOp::create(b, product, last);
  Value ds =
      MulOp::create(b, p, SubOp::create(b, dp, spreadRows(b, inner, dp)));
  ds = MulOp::create(b, ds,
                     buildSplat(b, ds.getType(), getScale().convertToDouble()));
  ds = buildCast(b, ds, compute);
  Value dquery = MatmulOp::create(b, getDquery().getType(), ds, getKey(),
                                  Value(), false, false);
  Value dkey = MatmulOp::create(b, getDkey().getType(), ds, getQuery(), Value(),
                                /*transpose_lhs=*/true, false);
  return SmallVector<Value>{dquery, dkey, dvalue};
}
