//===- Attention.cpp - Scaled dot-product attention -----------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/QuantizedOperands.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Attention.cpp.inc"

/// Returns the multiply-adds of one contraction of query and key.
static int64_t countScoreMacs(Value query, Value key) {
  auto keys = cast<RankedTensorType>(key.getType());
  return cast<RankedTensorType>(query.getType()).getNumElements() *
         keys.getDimSize(keys.getRank() - 2);
}

/// The scores, and the values weighted by them.
std::optional<int64_t> AttentionOp::countMacs() {
  return countScoreMacs(getQuery(), getKey()) +
         countScoreMacs(getY(), getKey());
}

/// The scores recomputed, the gradients of scores and values, and the gradients
/// of query and key.
std::optional<int64_t> AttentionGradOp::countMacs() {
  return 3 * countScoreMacs(getQuery(), getKey()) +
         2 * countScoreMacs(getGradient(), getKey());
}

Schedule AttentionOp::getSchedule() { return Schedule::Library; }
Schedule AttentionGradOp::getSchedule() { return Schedule::Library; }

FormatRole AttentionOp::getResultFormat(unsigned index) {
  return index == 0 ? FormatRole::Chosen : FormatRole::Wide;
}

FormatRole AttentionGradOp::getOperandFormat(unsigned index) {
  return index == 5 ? FormatRole::Wide : FormatRole::Chosen;
}

/// Returns the number of heads that share each key.
static int64_t countSharers(Value query, Value key) {
  auto count = [](Value x) {
    return ShapedType::getNumElements(getTensor(x).getShape().drop_back(2));
  };
  return count(query) / std::max<int64_t>(1, count(key));
}

/// Checks the constraints on the three operands of attention.
template <typename Adaptor>
static LogicalResult verifyInputs(std::optional<Location> location,
                                  Adaptor adaptor) {
  RankedTensorType query = getTensor(adaptor.getQuery()),
                   key = getTensor(adaptor.getKey()),
                   value = getTensor(adaptor.getValue());
  int64_t rank = query.getRank();
  auto getLeading = [](RankedTensorType type) {
    return type.getShape().drop_back(2);
  };
  auto isShared = [&] {
    SmallVector<int64_t> shared(getLeading(query));
    if (shared.empty() || shared.back() == 0)
      return false;
    shared.back() = 1;
    return getLeading(key) == ArrayRef(shared);
  };
  if (rank < 2 || key.getRank() != rank || value.getRank() != rank ||
      getLeading(value) != getLeading(key) ||
      (getLeading(key) != getLeading(query) && !isShared()) ||
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

/// Returns the shape of the result, [..., N, E].
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
// Attention that is not decomposed
//===----------------------------------------------------------------------===//

static constexpr int64_t kHeadMultiple = 16;

static int64_t getHeadSize(Value x) { return getTensor(x).getShape().back(); }

static bool hasKernelOf(TargetAttr target, FloatType compute) {
  return target && llvm::is_contained(target.getAttention(), compute);
}

/// Whether the target of `op` has a kernel for the whole op. `multiplied` are
/// the operands of its contractions, `compute` is the format they must have.
static bool hasKernel(Operation *op, ValueRange multiplied, FloatType compute) {
  TargetAttr target = getTarget(op);
  if (!hasKernelOf(target, compute))
    return false;
  auto isMultiplied = [&](Value x) {
    int64_t columns = getHeadSize(x);
    return getElementTypeOrSelf(x.getType()) == compute &&
           columns % kHeadMultiple == 0 && columns <= target.getMost();
  };
  auto isNumber = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return element.isF32() || element.isF16() || element.isBF16();
  };
  return llvm::all_of(multiplied, isMultiplied) &&
         llvm::none_of(op->getOperandTypes(), hasNoElements) &&
         llvm::all_of(op->getOperandTypes(), isNumber) &&
         llvm::all_of(op->getResultTypes(), isNumber);
}

/// Returns the fallback of an attention that `hasKernel` rejects although the
/// target has kernels for its compute format.
static std::optional<Fallback>
findPieces(PrecisionOpInterface op, ValueRange multiplied, FloatType compute) {
  if (std::optional<Fallback> dequantized =
          findDequantized(op, op.getPrecisionAttr()))
    return dequantized;
  TargetAttr target = getTarget(op);
  if (!hasKernelOf(target, compute) || hasKernel(op, multiplied, compute))
    return std::nullopt;
  std::string reason = "operands have different formats", nearest;
  for (Value x : multiplied) {
    int64_t columns = getHeadSize(x),
            next = llvm::alignTo(columns, kHeadMultiple);
    if (columns > target.getMost())
      reason = llvm::formatv("a head size of {0} is more than {1}", columns,
                             target.getMost());
    else if (columns != next)
      std::tie(reason, nearest) =
          std::pair(llvm::formatv("a head size of {0} is not a multiple of {1}",
                                  columns, kHeadMultiple)
                        .str(),
                    llvm::formatv("head size = {0}", next).str());
  }
  std::string format = llvm::to_string(compute);
  return Fallback{format, format, reason, nearest};
}

std::optional<Fallback> AttentionOp::findFallback() {
  return findPieces(*this, getOperands(),
                    getComputeFormat(*this, getValue().getType()));
}

std::optional<Fallback> AttentionGradOp::findFallback() {
  return findPieces(*this, {getGradient(), getQuery(), getKey(), getValue()},
                    getComputeFormat(*this, getQuery().getType()));
}

bool AttentionOp::ignoresMasked() { return true; }

//===----------------------------------------------------------------------===//
// Decomposition into tiles of matmuls and row reductions
//===----------------------------------------------------------------------===//

/// The maximum number of scores in a tile on a CPU: 256 KiB, so that a few such
/// matrices fit into a core's cache.
static constexpr int64_t kMaxScores = 1 << 16;

static int64_t getMostScores(Operation *op) {
  TargetAttr target = getTarget(op);
  return target ? target.getPiece() : kMaxScores;
}

/// Returns the largest divisor of `count` that is at most `limit`, at least 1.
static int64_t getLargestDivisor(int64_t count, int64_t limit) {
  for (int64_t size = std::max<int64_t>(1, std::min(count, limit));; --size)
    if (count % size == 0)
      return size;
}

/// Merges all but the last `kept` axes of `x`.
static Value joinLeading(ImplicitLocOpBuilder &b, Value x, int64_t kept) {
  ArrayRef<int64_t> shape = getTensor(x).getShape();
  SmallVector<int64_t> joined = {
      ShapedType::getNumElements(shape.drop_back(kept))};
  llvm::append_range(joined, shape.take_back(kept));
  return buildReshape(b, x, joined);
}

/// Builds the ops of `body` on [heads, N, ...] tensors for a few heads at a
/// time, or, if the scores of one head are too many, for some queries of a
/// head. The tensors `perQuery` have an axis of queries, `perHead` do not. The
/// first `numPerQuery` results of `body` have the axis, too; the others are
/// summed over the queries. `body` also gets the positions of the queries.
using AttentionBody =
    function_ref<SmallVector<Value>(ImplicitLocOpBuilder &, ValueRange perQuery,
                                    ValueRange perHead, Value positions)>;

static SmallVector<Value> buildByQueries(ImplicitLocOpBuilder &b,
                                         ValueRange perQuery,
                                         ValueRange perHead, int64_t queries,
                                         int64_t block, unsigned numPerQuery,
                                         AttentionBody body) {
  auto drop = [&](Value x) {
    return buildReshape(b, x, getTensor(x).getShape().drop_front());
  };
  SmallVector<Value> sliced = llvm::map_to_vector(perQuery, drop);
  SmallVector<Value> whole = llvm::map_to_vector(perHead, drop);
  auto positions = RankedTensorType::get({queries}, b.getI32Type());
  sliced.push_back(IotaOp::create(b, positions, b.getI64IntegerAttr(0)));
  SmallVector<Value> results = buildTile(
      b, {queries / block}, sliced, whole,
      [&](ImplicitLocOpBuilder &b, ValueRange pieces) {
        ValueRange slices = pieces.take_front(sliced.size());
        SmallVector<Value> values =
            body(b, slices.drop_back(), pieces.drop_front(sliced.size()),
                 slices.back());
        TileYield yield;
        for (auto [index, value] : llvm::enumerate(values))
          (index < numPerQuery ? yield.joined : yield.added).push_back(value);
        return yield;
      });
  for (Value &result : results) {
    SmallVector<int64_t> shape = {1};
    llvm::append_range(shape, getTensor(result).getShape());
    result = buildReshape(b, result, shape);
  }
  return results;
}

static SmallVector<Value> buildByHeads(ImplicitLocOpBuilder &b,
                                       ValueRange perQuery, ValueRange perHead,
                                       int64_t most, unsigned numPerQuery,
                                       AttentionBody body) {
  int64_t heads = getTensor(perQuery.front()).getDimSize(0);
  int64_t queries = getTensor(perQuery.front()).getDimSize(1);
  int64_t keys = getTensor(perHead.front()).getDimSize(1);
  auto fit = [most](int64_t scores) {
    return most / std::max<int64_t>(scores, 1);
  };
  int64_t some = getLargestDivisor(heads, fit(queries * keys));
  int64_t block = getLargestDivisor(queries, fit(keys));
  SmallVector<Value> sliced(perQuery);
  llvm::append_range(sliced, perHead);
  auto build = [&](ImplicitLocOpBuilder &b, ValueRange pieces) {
    ValueRange ofQueries = pieces.take_front(perQuery.size());
    ValueRange ofHeads = pieces.drop_front(perQuery.size());
    return TileYield{some == 1 && block < queries
                         ? buildByQueries(b, ofQueries, ofHeads, queries, block,
                                          numPerQuery, body)
                         : body(b, ofQueries, ofHeads, Value()),
                     {}};
  };
  if (some == heads && (heads > 1 || block == queries))
    return build(b, sliced).joined;
  return buildTile(b, {heads / some}, sliced, {}, build);
}

/// Returns the number of elements of the first axis, usually samples, per tile.
/// Slices and transposes that do not mix samples can then be tiled, too. On a
/// CPU a tile is one sample, which one thread computes; if there are few
/// samples, all are in one tile, and their heads are tiled instead. On other
/// targets a tile uses the whole device.
static int64_t countSamples(Operation *op, Value query, Value key) {
  constexpr int64_t kManySamples = 8;
  RankedTensorType type = getTensor(query);
  int64_t samples = type.getDimSize(0);
  if (type.getRank() < 4)
    return samples;
  if (!getTarget(op))
    return samples < kManySamples ? samples : 1;
  int64_t keys = getTensor(key).getDimSize(type.getRank() - 2);
  int64_t scores =
      ShapedType::getNumElements(type.getShape().drop_back()) * keys;
  return getLargestDivisor(samples, getMostScores(op) * samples /
                                        std::max<int64_t>(scores, 1));
}

/// Builds the ops of `body` for `samples` elements of the first axis at a time.
static SmallVector<Value> buildBySamples(
    ImplicitLocOpBuilder &b, ValueRange operands, int64_t samples,
    function_ref<SmallVector<Value>(ImplicitLocOpBuilder &, ValueRange)> body) {
  int64_t all = getTensor(operands.front()).getDimSize(0);
  if (samples == all)
    return body(b, operands);
  return buildTile(b, {all / samples}, operands, {},
                   [&](ImplicitLocOpBuilder &b, ValueRange pieces) {
                     return TileYield{body(b, pieces), {}};
                   });
}

/// Broadcasts `x`, whose axes are all but the last of `like`, to the shape of
/// `like`.
static Value broadcastRows(ImplicitLocOpBuilder &b, Value x, Value like) {
  RankedTensorType type = getTensor(like);
  return buildBroadcast(
      b, x, llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1)),
      type.getShape());
}

/// Builds scale * query key^T in f32, with -infinity where the causal mask
/// hides a key. `positions` are those of the queries; if null, they count from
/// 0.
static Value buildScores(ImplicitLocOpBuilder &b, Value query, Value key,
                         const APFloat &scale, bool causal, Value positions,
                         PrecisionAttr precision) {
  RankedTensorType q = getTensor(query);
  int64_t rank = q.getRank();
  SmallVector<int64_t> shape(q.getShape());
  shape.back() = getTensor(key).getDimSize(rank - 2);
  auto type = RankedTensorType::get(shape, b.getF32Type());
  Value scores = MatmulOp::create(b, type, query, key, Value(),
                                  /*transpose_lhs=*/false,
                                  /*transpose_rhs=*/true, precision);
  scores =
      MulOp::create(b, scores, buildSplat(b, type, scale.convertToDouble()));
  if (!causal)
    return scores;
  auto indices = RankedTensorType::get(shape, b.getI32Type());
  Value row = positions
                  ? broadcastRows(b, positions, scores)
                  : IotaOp::create(b, indices, b.getI64IntegerAttr(rank - 2));
  Value column = IotaOp::create(b, indices, b.getI64IntegerAttr(rank - 1));
  Value visible = CompareOp::create(b, column, row, Comparison::LessEqual);
  return SelectOp::create(b, visible, scores, buildSplat(b, type, -INFINITY));
}

/// Returns {y, lse}.
static SmallVector<Value> buildAttention(ImplicitLocOpBuilder &b, Value scores,
                                         Value value, FloatType compute,
                                         Type result, PrecisionAttr precision) {
  int64_t last = getTensor(scores).getRank() - 1;
  Value maximum = ReduceMaxOp::create(b, scores, last);
  Value e = ExpOp::create(
      b, SubOp::create(b, scores, broadcastRows(b, maximum, scores)));
  Value total = ReduceSumOp::create(b, e, last);
  Value share = ReciprocalOp::create(b, total);
  Value p = MulOp::create(b, e, broadcastRows(b, share, e));
  Value lse = AddOp::create(b, maximum, LogOp::create(b, total));
  Value narrow = buildRounded(b, p, compute);
  SmallVector<int64_t> shape(getTensor(scores).getShape());
  shape.back() = getTensor(value).getShape().back();
  Value y = MatmulOp::create(b, RankedTensorType::get(shape, result), narrow,
                             value, Value(), false, false, precision);
  return {y, lse};
}

/// Repeats keys or values for each head of `query`.
static Value repeatShared(ImplicitLocOpBuilder &b, Value x, Value query) {
  if (countSharers(query, x) == 1)
    return x;
  SmallVector<int64_t> shape(getTensor(query).getShape().drop_back(2));
  int64_t rank = getTensor(x).getRank();
  llvm::append_range(shape, getTensor(x).getShape().take_back(2));
  return buildBroadcast(b, x, llvm::to_vector(llvm::seq<int64_t>(0, rank)),
                        shape);
}

/// Splits the first axis of `part` into the leading axes of `shape`, of which
/// `part` may contain only some elements of the first.
static Value restoreAxes(ImplicitLocOpBuilder &b, Value part,
                         ArrayRef<int64_t> shape) {
  SmallVector<int64_t> restored(shape);
  int64_t joined = shape.size() - getTensor(part).getRank() + 1;
  if (joined > 0)
    restored.front() =
        getTensor(part).getDimSize(0) /
        ShapedType::getNumElements(ArrayRef(restored).slice(1, joined - 1));
  return buildReshape(b, part, restored);
}

/// Sums f32 gradients of keys or values over the heads that share them.
static Value sumShared(ImplicitLocOpBuilder &b, Value gradient) {
  SmallVector<int64_t> shape(getTensor(gradient).getShape());
  int64_t axis = shape.size() - 3;
  shape[axis] = 1;
  return buildReshape(b, ReduceSumOp::create(b, gradient, axis), shape);
}

FailureOr<SmallVector<Value>> AttentionOp::decompose(ImplicitLocOpBuilder &b) {
  FloatType compute = getComputeFormat(*this, getValue().getType());
  if (hasKernel(*this, getOperands(), compute))
    return failure();
  Type result = getElementTypeOrSelf(getY().getType());
  PrecisionAttr precision = getMultiplied(getPrecisionAttr());
  auto ofScores = [&](ImplicitLocOpBuilder &b, ValueRange perQuery,
                      ValueRange perHead, Value positions) {
    Value scores = buildScores(b, perQuery[0], perHead[0], getScale(),
                               getCausal(), positions, precision);
    return buildAttention(b, scores, perHead[1], compute, result, precision);
  };
  return buildBySamples(
      b, getOperands(), countSamples(*this, getQuery(), getKey()),
      [&](ImplicitLocOpBuilder &b, ValueRange operands) {
        auto ofKeys = [&](Value x) {
          return joinLeading(b, repeatShared(b, x, operands[0]), 2);
        };
        Value query = joinLeading(b, operands[0], 2), key = ofKeys(operands[1]),
              value = ofKeys(operands[2]);
        SmallVector<Value> parts =
            buildByHeads(b, query, {key, value}, getMostScores(*this),
                         /*numPerQuery=*/2, ofScores);
        for (auto [part, whole] : llvm::zip(parts, getResults()))
          part = restoreAxes(b, part, getTensor(whole).getShape());
        return parts;
      });
}

FailureOr<SmallVector<Value>>
AttentionGradOp::decompose(ImplicitLocOpBuilder &b) {
  FloatType compute = getComputeFormat(*this, getQuery().getType());
  if (hasKernel(*this, {getGradient(), getQuery(), getKey(), getValue()},
                compute))
    return failure();
  PrecisionAttr precision = getMultiplied(getPrecisionAttr());
  int64_t sharers = countSharers(getQuery(), getKey());
  auto product = [&](ImplicitLocOpBuilder &b, Value lhs, Value rhs,
                     bool transposeLhs, bool transposeRhs, Type element) {
    SmallVector<int64_t> shape(getTensor(lhs).getShape());
    int64_t rank = shape.size();
    shape[rank - 2] = getTensor(lhs).getDimSize(rank - (transposeLhs ? 1 : 2));
    shape[rank - 1] = getTensor(rhs).getDimSize(rank - (transposeRhs ? 2 : 1));
    return MatmulOp::create(b, RankedTensorType::get(shape, element), lhs, rhs,
                            Value(), transposeLhs, transposeRhs, precision);
  };
  auto body = [&](ImplicitLocOpBuilder &b, ValueRange perQuery,
                  ValueRange perHead, Value positions) -> SmallVector<Value> {
    Value dy = perQuery[0], query = perQuery[1], y = perQuery[2];
    Value key = perHead[0], value = perHead[1];
    Value scores = buildScores(b, query, key, getScale(), getCausal(),
                               positions, precision);
    int64_t last = getTensor(scores).getRank() - 1;
    Value p = ExpOp::create(
        b, SubOp::create(b, scores, broadcastRows(b, perQuery[3], scores)));
    // Partial gradients of keys, which are summed over tiles of queries or over
    // heads, stay f32.
    auto ofKeys = [&](Value whole) {
      return positions || sharers > 1 ? Type(b.getF32Type())
                                      : getElementTypeOrSelf(whole.getType());
    };
    Value dvalue = product(b, buildRounded(b, p, compute), dy, true, false,
                           ofKeys(getDvalue()));
    Value dp = product(b, dy, value, false, true, b.getF32Type());
    Value inner =
        ReduceSumOp::create(b,
                            MulOp::create(b, buildCast(b, dy, b.getF32Type()),
                                          buildCast(b, y, b.getF32Type())),
                            last);
    Value ds =
        MulOp::create(b, p, SubOp::create(b, dp, broadcastRows(b, inner, dp)));
    ds = MulOp::create(
        b, ds, buildSplat(b, ds.getType(), getScale().convertToDouble()));
    ds = buildRounded(b, ds, compute);
    return {product(b, ds, key, false, false,
                    getElementTypeOrSelf(getDquery().getType())),
            product(b, ds, query, true, false, ofKeys(getDkey())), dvalue};
  };
  return buildBySamples(
      b, getOperands(), countSamples(*this, getQuery(), getKey()),
      [&](ImplicitLocOpBuilder &b, ValueRange operands) {
        auto ofKeys = [&](Value x) {
          return joinLeading(b, repeatShared(b, x, operands[1]), 2);
        };
        Value dy = joinLeading(b, operands[0], 2),
              query = joinLeading(b, operands[1], 2), key = ofKeys(operands[2]),
              value = ofKeys(operands[3]), y = joinLeading(b, operands[4], 2),
              lse = joinLeading(b, operands[5], 1);
        SmallVector<Value> parts =
            buildByHeads(b, {dy, query, y, lse}, {key, value},
                         getMostScores(*this), /*numPerQuery=*/1, body);
        for (auto [part, whole] : llvm::zip(parts, getResults())) {
          bool isShared = sharers > 1 && whole != getDquery();
          SmallVector<int64_t> shape(getTensor(whole).getShape());
          if (isShared)
            shape[shape.size() - 3] = sharers;
          part = restoreAxes(b, part, shape);
          part = buildCast(b, isShared ? sumShared(b, part) : part,
                           getElementTypeOrSelf(whole.getType()));
        }
        return parts;
      });
}
