//===- AttentionTiles.cpp - Tiles of attention ----------------------------===//

#include "AttentionTiles.h"
#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::attention;

/// The maximum number of scores in a tile on a CPU: 256 KiB, so that a few such
/// matrices fit into a core's cache.
static constexpr int64_t kMaxScores = 1 << 16;

int64_t attention::getMostScores(Operation *op) {
  TargetAttr target = getTarget(op);
  return target ? target.getPiece() : kMaxScores;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Builds the results from operands, or from their pieces. In tiles of queries
/// it also gets the positions of the queries, and tensors have no axis of
/// heads.
using AttentionBody = function_ref<SmallVector<Value>(
    ImplicitLocOpBuilder &, ValueRange operands, Value positions)>;

static Access onlyPerQuery() {
  return {/*perHead=*/false, /*perQuery=*/true, /*hasHeads=*/false};
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

/// Returns `x`, in f32, as the result of a matmul, because only these are added
/// up over the iterations of a tile: as [1, elements], times 1.
static Value buildSummand(ImplicitLocOpBuilder &b, Value x) {
  if (x.getDefiningOp<MatmulOp>())
    return x;
  Value row = buildReshape(b, x, {1, getNumElements(x)});
  auto one = RankedTensorType::get({1, 1}, b.getF32Type());
  return MatmulOp::create(b, row.getType(), buildSplat(b, one, 1.0), row,
                          Value(), /*transpose_lhs=*/false,
                          /*transpose_rhs=*/false, PrecisionAttr());
}

/// Builds a tile of `count` pieces. `isSliced` says of each operand whether the
/// body gets a slice of it; `isJoined` says of each result whether slices of it
/// are joined, otherwise they are added up.
static SmallVector<Value> buildMixedTile(
    ImplicitLocOpBuilder &b, int64_t count, ValueRange operands,
    ArrayRef<bool> isSliced, ArrayRef<bool> isJoined,
    function_ref<SmallVector<Value>(ImplicitLocOpBuilder &, ValueRange)> body) {
  SmallVector<Value> sliced, whole;
  for (auto [value, slice] : llvm::zip_equal(operands, isSliced))
    (slice ? sliced : whole).push_back(value);
  SmallVector<SmallVector<int64_t>> shapes;
  SmallVector<Value> built = buildTile(
      b, {count}, sliced, whole,
      [&](ImplicitLocOpBuilder &b, ValueRange pieces) {
        SmallVector<Value> ordered;
        size_t nextSlice = 0, nextWhole = sliced.size();
        for (bool slice : isSliced)
          ordered.push_back(pieces[slice ? nextSlice++ : nextWhole++]);
        TileYield yield;
        for (auto [value, join] : llvm::zip_equal(body(b, ordered), isJoined)) {
          shapes.emplace_back(getTensor(value).getShape());
          if (join)
            yield.joined.push_back(value);
          else
            yield.added.push_back(buildSummand(b, value));
        }
        return yield;
      });
  SmallVector<Value> results;
  size_t nextJoined = 0, nextAdded = llvm::count(isJoined, true);
  for (auto [join, shape] : llvm::zip_equal(isJoined, shapes))
    results.push_back(join ? built[nextJoined++]
                           : buildReshape(b, built[nextAdded++], shape));
  return results;
}

/// Builds `body` for `block` queries of a head at a time.
static SmallVector<Value>
buildByQueries(ImplicitLocOpBuilder &b, Operands operands, int64_t queries,
               int64_t block, ArrayRef<Access> results, AttentionBody body) {
  for (auto [value, access] : llvm::zip(operands.values, operands.accesses))
    if (access.hasHeads)
      value = buildReshape(b, value, getTensor(value).getShape().drop_front());
  auto positions = RankedTensorType::get({queries}, b.getI32Type());
  operands.add(IotaOp::create(b, positions, b.getI64IntegerAttr(0)),
               onlyPerQuery());
  auto isPerQuery = [](Access access) { return access.perQuery; };
  SmallVector<Value> built =
      buildMixedTile(b, queries / block, operands.values,
                     llvm::map_to_vector(operands.accesses, isPerQuery),
                     llvm::map_to_vector(results, isPerQuery),
                     [&](ImplicitLocOpBuilder &b, ValueRange pieces) {
                       return body(b, pieces.drop_back(), pieces.back());
                     });
  for (Value &result : built) {
    SmallVector<int64_t> shape = {1};
    llvm::append_range(shape, getTensor(result).getShape());
    result = buildReshape(b, result, shape);
  }
  return built;
}

/// Builds `body` for a few of `heads` heads at a time, or, if one head has more
/// than `most` scores, for some of its queries.
static SmallVector<Value> buildByHeads(ImplicitLocOpBuilder &b,
                                       const Operands &operands, int64_t heads,
                                       int64_t queries, int64_t keys,
                                       int64_t most, ArrayRef<Access> results,
                                       AttentionBody body) {
  auto fit = [most](int64_t scores) {
    return most / std::max<int64_t>(scores, 1);
  };
  int64_t some = getLargestDivisor(heads, fit(queries * keys));
  int64_t block = getLargestDivisor(queries, fit(keys));
  auto build = [&](ImplicitLocOpBuilder &b, ValueRange pieces) {
    if (some > 1 || block == queries)
      return body(b, pieces, Value());
    Operands ofHead{llvm::to_vector(pieces), operands.accesses};
    return buildByQueries(b, ofHead, queries, block, results, body);
  };
  if (some == heads && (heads > 1 || block == queries))
    return build(b, operands.values);
  auto isPerHead = [](Access access) { return access.perHead; };
  return buildMixedTile(b, heads / some, operands.values,
                        llvm::map_to_vector(operands.accesses, isPerHead),
                        llvm::map_to_vector(results, isPerHead), build);
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

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

static ArrayRef<int64_t> getLeading(Value x) {
  return getTensor(x).getShape().drop_back(2);
}

static int64_t countHeads(Value x) {
  return ShapedType::getNumElements(getLeading(x));
}

int64_t attention::countSharers(Value query, Value key) {
  return countHeads(query) / std::max<int64_t>(1, countHeads(key));
}

/// Repeats keys or values for each head of `query`.
static Value repeatShared(ImplicitLocOpBuilder &b, Value x, Value query) {
  if (countSharers(query, x) == 1)
    return x;
  SmallVector<int64_t> shape(getLeading(query));
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

//===----------------------------------------------------------------------===//
// Pieces of an op
//===----------------------------------------------------------------------===//

/// Whether `x` is broadcast along some of the axes `leading`, but not along
/// all.
static bool isMixed(Value x, ArrayRef<int64_t> leading) {
  return getLeading(x) != leading && countHeads(x) > 1;
}

/// Returns the number of samples per tile. A matrix that several heads or
/// samples share must not be copied for each: then a tile has so few scores
/// that all its heads are computed together, or one sample, whose heads share
/// the matrix.
int64_t AttentionTiles::chooseSamples() const {
  int64_t samples = countSamples(op, query, key);
  SmallVector<int64_t> leading(getLeading(query));
  if (leading.size() < 2 || samples == 1)
    return samples;
  int64_t all = leading.front();
  leading.front() = samples;
  int64_t scores =
      ShapedType::getNumElements(leading) * countQueries() * countKeys();
  auto isCopied = [&](Value x) {
    SmallVector<int64_t> shape(getTensor(x).getShape());
    if (shape.front() == all)
      shape.front() = samples;
    ArrayRef<int64_t> own = ArrayRef(shape).drop_back(2);
    return own != ArrayRef(leading) && ShapedType::getNumElements(own) > 1 &&
           shape.back() > 1 && shape[shape.size() - 2] > 1;
  };
  return scores > most && llvm::any_of(extras.listBroadcast(), isCopied)
             ? 1
             : samples;
}

SmallVector<Value> AttentionTiles::build(ImplicitLocOpBuilder &b, Body body) {
  ArrayRef<int64_t> shape = getTensor(query).getShape();
  if (extras.rng)
    extras.rows = IotaOp::create(
        b, RankedTensorType::get(shape.drop_back(), b.getI64Type()),
        IntegerAttr());
  SmallVector<Value> all(operands.values);
  llvm::append_range(all, extras.list());
  int64_t samples = chooseSamples(), wanted = shape.front();
  if (samples == wanted)
    return buildSamples(b, all, body);
  auto hasSamples = [&](Value x) {
    return x != extras.rng && getTensor(x).getDimSize(0) == wanted;
  };
  SmallVector<bool> isSliced = llvm::map_to_vector(all, hasSamples);
  SmallVector<bool> isJoined =
      llvm::map_to_vector(results, [&](const Result &result) {
        return !result.bias || hasSamples(result.bias);
      });
  SmallVector<Value> built =
      buildMixedTile(b, wanted / samples, all, isSliced, isJoined,
                     [&](ImplicitLocOpBuilder &b, ValueRange pieces) {
                       return buildSamples(b, pieces, body);
                     });
  for (auto [value, result] : llvm::zip(built, results))
    value = buildCast(b, value, getElementTypeOrSelf(result.value.getType()));
  return built;
}

SmallVector<Value> AttentionTiles::buildSamples(ImplicitLocOpBuilder &b,
                                                ValueRange pieces,
                                                Body body) const {
  size_t count = operands.values.size();
  SmallVector<Value> own(pieces.take_front(count));
  Extras part = extras.getPieces(pieces.drop_front(count));
  Value ownQuery =
      own[llvm::find(operands.values, query) - operands.values.begin()];
  SmallVector<int64_t> leading(getLeading(ownQuery));
  for (auto [value, access] : llvm::zip(own, operands.accesses))
    if (!access.perQuery)
      value = repeatShared(b, value, ownQuery);
  auto isPartlyBroadcast = [&](Value x) { return isMixed(x, leading); };
  bool isWhole =
      llvm::any_of(part.listBroadcast(), isPartlyBroadcast) &&
      ShapedType::getNumElements(leading) * countQueries() * countKeys() <=
          most;
  SmallVector<Value> parts =
      isWhole ? body(b, own, part, Value()) : buildJoined(b, own, part, body);
  size_t nextBias = 0;
  for (auto [value, result] : llvm::zip(parts, results)) {
    Value bias;
    if (result.bias) {
      while (extras.biases[nextBias] != result.bias)
        ++nextBias;
      bias = part.biases[nextBias++];
    }
    value = finish(b, value, result, bias);
  }
  return parts;
}

/// Builds the body on tensors whose leading axes are joined.
SmallVector<Value> AttentionTiles::buildJoined(ImplicitLocOpBuilder &b,
                                               ValueRange own,
                                               const Extras &part,
                                               Body body) const {
  Operands joined;
  ArrayRef<int64_t> leading;
  for (auto [value, access] : llvm::zip(own, operands.accesses)) {
    int64_t rank = getTensor(value).getRank();
    if (rank == getTensor(query).getRank())
      leading = getLeading(value);
    int64_t kept = rank - getTensor(query).getRank() + 2;
    joined.add(joinLeading(b, value, kept), access);
  }
  int64_t heads = ShapedType::getNumElements(leading);
  auto getAccess = [&](Value x) {
    Access access;
    access.perHead = countHeads(x) != 1 || heads == 1;
    access.perQuery =
        getTensor(x).getShape().drop_back().back() == countQueries();
    return access;
  };
  auto addBroadcast = [&](Value x) {
    if (isMixed(x, leading)) {
      SmallVector<int64_t> shape(leading);
      llvm::append_range(shape, getTensor(x).getShape().take_back(2));
      x = broadcastUnits(b, x, shape);
    }
    joined.add(joinLeading(b, x, 2), getAccess(x));
  };
  for (Value x : part.listBroadcast())
    addBroadcast(x);
  if (part.rng) {
    joined.add(joinLeading(b, part.rows, 1));
    joined.add(part.rng, {/*perHead=*/false, /*perQuery=*/false,
                          /*hasHeads=*/false});
  }
  SmallVector<Access> accesses;
  size_t nextBias = own.size();
  for (const Result &result : results) {
    if (!result.bias) {
      accesses.push_back({/*perHead=*/true, result.perQuery});
      continue;
    }
    while (extras.biases[nextBias - own.size()] != result.bias)
      ++nextBias;
    accesses.push_back(joined.accesses[nextBias++]);
  }
  return buildByHeads(
      b, joined, heads, countQueries(), countKeys(), most, accesses,
      [&](ImplicitLocOpBuilder &b, ValueRange pieces, Value positions) {
        return body(b, pieces.take_front(own.size()),
                    part.getPieces(pieces.drop_front(own.size())), positions);
      });
}

/// Returns the result of which `part` has the heads joined or apart, for some
/// samples. `bias` is the part of the bias that it is the gradient of.
Value AttentionTiles::finish(ImplicitLocOpBuilder &b, Value part,
                             const Result &result, Value bias) const {
  Type element = getElementTypeOrSelf(result.value.getType());
  if (bias) {
    SmallVector<int64_t> shape(getTensor(bias).getShape());
    if (getTensor(part).getRank() == 3 && isMixed(bias, getLeading(part))) {
      SmallVector<int64_t> leading(getLeading(query));
      leading.front() =
          getTensor(part).getDimSize(0) /
          ShapedType::getNumElements(ArrayRef(leading).drop_front());
      ArrayRef<int64_t> matrix = getTensor(part).getShape().take_back(2);
      llvm::append_range(leading, matrix);
      if (shape != leading)
        return sumBroadcast(b, buildReshape(b, part, leading), bias);
    }
    return buildReshape(b, part, shape);
  }
  bool isShared = !result.perQuery && sharesKeys();
  SmallVector<int64_t> shape(getTensor(result.value).getShape());
  if (isShared)
    shape[shape.size() - 3] = countSharers(query, key);
  part = restoreAxes(b, part, shape);
  if (isShared)
    part = sumShared(b, part);
  return buildCast(b, part, element);
}
