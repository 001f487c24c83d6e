//===- Attention.cpp - Import of Attention --------------------------------===//
//
// Attention becomes `binade.attention`, whose masks are those of the node,
// windows and numbers of keys. If the node returns scores or probabilities, it
// is decomposed into matmuls and a softmax.
//
//===----------------------------------------------------------------------===//

#include "Attention.h"
#include "../OpTable.h"
#include "Arithmetic.h"
#include "Indexing.h"
#include "binade/IR/Movement.h"
#include "mlir/Dialect/Traits.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

Value mlir::binade::importer::splitHeads(Node &node, unsigned index,
                                         int64_t heads) {
  ArrayRef<int64_t> shape = node.getShape(index);
  Value split = buildReshape(node.b, node.getInput(index),
                             {shape[0], shape[1], heads, shape[2] / heads});
  return buildTranspose(node.b, split, {0, 2, 1, 3});
}

Value mlir::binade::importer::joinHeads(ImplicitLocOpBuilder &b, Value x) {
  ArrayRef<int64_t> shape = getTensor(x).getShape();
  int64_t width = shape[1] * shape[3];
  return buildReshape(b, buildTranspose(b, x, {0, 2, 1, 3}),
                      {shape[0], shape[2], width});
}

Value mlir::binade::importer::repeatHeads(ImplicitLocOpBuilder &b, Value x,
                                          int64_t heads) {
  SmallVector<int64_t> shape(getTensor(x).getShape());
  int64_t own = shape[1];
  if (own == heads)
    return x;
  shape.insert(shape.begin() + 2, heads / own);
  Value copies = buildBroadcast(b, x, {0, 1, 3, 4}, shape);
  return buildReshape(b, copies, {shape[0], heads, shape[3], shape[4]});
}

Value mlir::binade::importer::buildScores(ImplicitLocOpBuilder &b, Value query,
                                          Value key, double scale) {
  auto scaled = [&](Value x) -> Value {
    Value root = buildSplat(b, x.getType(), std::sqrt(scale));
    return MulOp::create(b, x, root);
  };
  Value scores = MatmulOp::create(b, scaled(query), scaled(key), Value(),
                                  /*transpose_lhs=*/false,
                                  /*transpose_rhs=*/true, PrecisionAttr());
  if (getTensor(scores).getElementTypeBitWidth() < 32)
    scores = buildCast(b, scores, b.getF32Type());
  return scores;
}

namespace {
/// One Attention node: operands are [batch, heads, length, size].
struct Attention {
  explicit Attention(Node &node) : node(node), b(node.b) {}

  LogicalResult readAttention();
  LogicalResult buildAttention();

private:
  LogicalResult readOperands();
  LogicalResult readMask();
  /// Whether the causal mask counts both positions from the first one.
  bool isOwnCausal() const {
    return isCausal && past == 0 && !keyCounts && keys() == queries();
  }
  void buildAllowed(bool withCausal);
  Value buildFused();
  LogicalResult buildDecomposed(Value &y);
  Value broadcastMask(Value x) const;
  int64_t queries() const { return getTensor(query).getDimSize(2); }
  int64_t keys() const { return getTensor(key).getDimSize(2); }
  LogicalResult reject() {
    return node.emitError()
           << "cannot attend with queries " << node.getType(0) << ", keys "
           << node.getType(1) << " and values " << node.getType(2);
  }

  Node &node;
  ImplicitLocOpBuilder &b;
  Value query, key, value;
  /// The bias that is added to scores, and where attention is allowed. Both
  /// have rank 4 and can be broadcast to scores; either may be null.
  Value bias, allowed;
  /// The number of keys of the cache, before the first query.
  int64_t past = 0;
  /// The number of valid keys of each sample (input `nonpad_kv_seqlen`), or
  /// null. The queries are the last of them.
  Value keyCounts;
  bool isCausal = false, wantsScores = false;
  int64_t left = -1, right = -1, mode = 0;
  double scale = 1.0, softcap = 0.0;
};
} // namespace

enum : unsigned {
  kAttentionMask = 3,
  kPastKey = 4,
  kPastValue = 5,
  kLengths = 6
};
enum : unsigned { kPresentKey = 1, kPresentValue = 2, kScores = 3 };

LogicalResult Attention::readOperands() {
  int64_t rank = node.getRank(0);
  int64_t heads = node.getInt("q_num_heads", 1);
  int64_t keyHeads = node.getInt("kv_num_heads", heads);
  if ((rank != 3 && rank != 4) || node.getRank(1) != rank ||
      node.getRank(2) != rank || node.getElement(1) != node.getElement(0) ||
      node.getElement(2) != node.getElement(0))
    return reject();
  Value values[3];
  for (unsigned index : {0u, 1u, 2u}) {
    int64_t count = index == 0 ? heads : keyHeads;
    if (rank == 4)
      values[index] = node.getInput(index);
    else if (count < 1 || node.getShape(index)[2] % count != 0)
      return reject();
    else
      values[index] = splitHeads(node, index, count);
  }
  query = values[0], key = values[1], value = values[2];
  if (node.hasInput(kPastKey) != node.hasInput(kPastValue))
    return node.emitError() << "has a past of keys or values, expected both";
  if (node.hasInput(kPastKey)) {
    past = node.getRank(kPastKey) == 4 ? node.getShape(kPastKey)[2] : 0;
    for (auto [side, index] :
         {std::pair(&key, kPastKey), std::pair(&value, kPastValue)}) {
      RankedTensorType type = getTensor(*side);
      SmallVector<int64_t> shape(type.getShape()), joined = shape;
      shape[2] = past;
      joined[2] += past;
      if (node.getType(index) != type.clone(shape))
        return node.emitError()
               << "expected a past of type " << type.clone(shape) << ", got "
               << node.getType(index);
      *side = ConcatOp::create(b, type.clone(joined),
                               ValueRange{node.getInput(index), *side}, 2,
                               PrecisionAttr());
    }
  }
  node.setOutput(kPresentKey, key);
  node.setOutput(kPresentValue, value);
  ArrayRef<int64_t> q = getTensor(query).getShape(),
                    k = getTensor(key).getShape(),
                    v = getTensor(value).getShape();
  if (k[0] != q[0] || v.take_front(3) != k.take_front(3) || k[3] != q[3])
    return reject();
  if (q[1] == k[1])
    return success();
  if (k[1] == 0 || q[1] % k[1] != 0)
    return node.emitError() << "has " << q[1] << " heads of queries and "
                            << k[1] << " of keys, expected a multiple";
  key = repeatHeads(b, key, q[1]);
  value = repeatHeads(b, value, q[1]);
  return success();
}

/// Broadcasts `x` to [batch, heads, queries, keys] by numpy's rules.
Value Attention::broadcastMask(Value x) const {
  ArrayRef<int64_t> q = getTensor(query).getShape();
  return broadcastTo(b, x, {q[0], q[1], q[2], keys()});
}

LogicalResult Attention::readMask() {
  if (!node.hasInput(kAttentionMask))
    return success();
  RankedTensorType type = node.getType(kAttentionMask);
  bool isBool = type.getElementType().isInteger(1);
  SmallVector<int64_t> shape(type.getShape());
  ArrayRef<int64_t> q = getTensor(query).getShape();
  SmallVector<int64_t> scores = {q[0], q[1], q[2], keys()}, common;
  int64_t given = shape.empty() ? 1 : shape.back();
  // Keys beyond those of a shorter mask are masked.
  bool isShort = given != 1 && given < keys();
  SmallVector<int64_t> wanted = scores;
  if (isShort)
    wanted.back() = given;
  if ((!isBool && type.getElementType() != node.getElement(0)) ||
      !OpTrait::util::getBroadcastedShape(wanted, shape, common) ||
      common != wanted)
    return node.emitError()
           << "expected a mask of bool or of " << node.getElement(0)
           << " for scores [" << ArrayRef(scores) << "], got " << type;
  Value mask = node.getInput(kAttentionMask);
  if (isShort) {
    shape.back() = keys() - given;
    Value rest = buildSplat(b, type.clone(shape), isBool ? 0.0 : -INFINITY);
    shape.back() = keys();
    mask = ConcatOp::create(b, type.clone(shape), ValueRange{mask, rest},
                            shape.size() - 1, PrecisionAttr());
  }
  SmallVector<int64_t> wide(getTensor(mask).getShape());
  wide.insert(wide.begin(), 4 - wide.size(), 1);
  (isBool ? allowed : bias) = buildReshape(b, mask, wide);
  return success();
}

LogicalResult Attention::readAttention() {
  if (failed(requireFloats(node)))
    return failure();
  isCausal = node.getInt("is_causal", 0);
  softcap = node.getFloat("softcap", 0.0f);
  left = node.getInt("left_window_size", -1);
  right = node.getInt("right_window_size", -1);
  mode = node.getInt("qk_matmul_output_mode", 0);
  // Scores are always computed in f32 or wider.
  (void)node.getInt("softmax_precision", 1);
  wantsScores =
      node.hasOutput(kScores) && node.graph.isUsed(node.getOutputName(kScores));
  if (left < -1 || right < -1 || mode < 0 || mode > 3 || softcap < 0.0)
    return node.emitError()
           << "expected windows of at least -1, a mode of 0 to 3 and no "
              "negative softcap, got "
           << left << ", " << right << ", " << mode << " and " << softcap;
  if (failed(readOperands()) || failed(readMask()))
    return failure();
  scale = 1.0 / std::sqrt(static_cast<double>(getTensor(query).getDimSize(3)));
  if (node.hasAttribute("scale"))
    scale = node.getFloat("scale", 0.0f);
  if (!node.hasInput(kLengths))
    return success();
  if (node.hasInput(kPastKey) || failed(requireIndices(node, kLengths)) ||
      node.getShape(kLengths) != getTensor(query).getShape().take_front(1))
    return node.emitError()
           << "expected the number of keys of each batch, and no past, got "
           << node.getType(kLengths);
  keyCounts = buildCast(b, node.getInput(kLengths), b.getI64Type());
  return success();
}

/// Restricts `allowed` to keys that exist and are in the window of their query.
void Attention::buildAllowed(bool withCausal) {
  if (!keyCounts && !withCausal && left < 0 && right < 0)
    return;
  SmallVector<int64_t> shape = {getTensor(query).getDimSize(0), 1, queries(),
                                keys()};
  if (!keyCounts)
    shape[0] = 1;
  auto type = RankedTensorType::get(shape, b.getI64Type());
  Value own = buildPlaces(b, type, 2), place = buildPlaces(b, type, 3), found;
  auto require = [&](Value lhs, Comparison comparison, Value rhs) {
    Value holds = CompareOp::create(b, lhs, rhs, comparison);
    found = found ? Value(AndOp::create(b, found, holds)) : holds;
  };
  auto shift = [&](Value x, int64_t distance) {
    return AddOp::create(b, x,
                         buildSplat(b, type, static_cast<double>(distance)));
  };
  if (keyCounts) {
    Value lengths = buildBroadcast(b, keyCounts, {0}, shape);
    require(place, Comparison::Less, lengths);
    own = AddOp::create(b, own, shift(lengths, -queries()));
  } else if (past != 0) {
    own = shift(own, past);
  }
  if (withCausal)
    require(place, Comparison::LessEqual, own);
  if (left >= 0)
    require(place, Comparison::GreaterEqual, shift(own, -left));
  if (right >= 0)
    require(place, Comparison::LessEqual, shift(own, right));
  if (!allowed) {
    allowed = found;
    return;
  }
  for (auto [size, other] : llvm::zip(shape, getTensor(allowed).getShape()))
    size = size == 1 ? other : size;
  allowed = AndOp::create(b, broadcastTo(b, allowed, shape),
                          broadcastTo(b, found, shape));
}

Value Attention::buildFused() {
  buildAllowed(isCausal && !isOwnCausal());
  auto op =
      AttentionOp::create(b, query, key, value, APFloat(scale), isOwnCausal());
  op.setSoftcap(APFloat(softcap));
  if (bias)
    op.getBiasesMutable().assign(bias);
  if (allowed)
    op.getMaskMutable().assign(allowed);
  // A query without any allowed key gets probabilities of 0 and no gradient.
  op.setZeroHidden(bias || allowed);
  return op.getY();
}

LogicalResult Attention::buildDecomposed(Value &y) {
  if (!(scale >= 0.0))
    return node.emitUnsupported()
           << "expected a scale of at least 0, got " << scale;
  buildAllowed(isCausal);
  Value scores = buildScores(b, query, key, scale);
  Arithmetic a(b, scores);
  auto expose = [&](int64_t stage, Value x) {
    if (stage == mode)
      node.setOutput(kScores, buildCast(b, x, node.getElement(0)));
  };
  expose(0, scores);
  if (softcap > 0.0)
    scores = a.mul(TanhOp::create(b, a.div(scores, softcap)), softcap);
  expose(1, scores);
  Value zero = a.splat(0.0), none = a.splat(-INFINITY);
  Value added;
  if (bias) {
    added = buildCast(b, broadcastMask(bias), a.type.getElementType());
    scores = a.add(scores, added);
  }
  if (allowed) {
    Value whole = broadcastMask(allowed);
    scores = a.select(whole, scores, none);
    added = a.select(whole, added ? added : zero, none);
  }
  expose(2, scores);
  // A query without any allowed key gets probabilities of 0 and no gradient.
  Value isEmpty;
  if (added) {
    Value largest = ReduceMaxOp::create(b, added, ArrayRef<int64_t>{3});
    Value nothing = buildSplat(b, largest.getType(), -INFINITY);
    isEmpty = buildBroadcast(
        b, CompareOp::create(b, largest, nothing, Comparison::Equal), {0, 1, 2},
        a.type.getShape());
    scores = a.select(isEmpty, zero, scores);
  }
  Value weights = SoftmaxOp::create(b, scores, PrecisionAttr());
  if (isEmpty)
    weights = a.select(isEmpty, zero, weights);
  weights = buildCast(b, weights, node.getElement(0));
  expose(3, weights);
  y = MatmulOp::create(b, weights, value, Value(), /*transpose_lhs=*/false,
                       /*transpose_rhs=*/false, PrecisionAttr());
  return success();
}

LogicalResult Attention::buildAttention() {
  Value y;
  if (!wantsScores)
    y = buildFused();
  else if (failed(buildDecomposed(y)))
    return failure();
  return node.setResult(node.getRank(0) == 3 ? joinHeads(b, y) : y);
}

LogicalResult mlir::binade::importer::importAttention(Node &node) {
  Attention attention(node);
  return success(succeeded(attention.readAttention()) &&
                 succeeded(attention.buildAttention()));
}
