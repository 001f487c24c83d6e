//===- RecognizeAttention.cpp - Recognition of attention ------------------===//

#include "AttentionScores.h"
#include "binade/IR/Movement.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;

/// Swaps the last two axes of `value`; if it is a transpose, composes the
/// permutations.
static Value swapAxes(ImplicitLocOpBuilder &b, Value value) {
  SmallVector<int64_t> permutation = getSwapOfLastAxes(value.getType());
  if (auto transpose = value.getDefiningOp<TransposeOp>()) {
    value = transpose.getX();
    permutation = applyPermutation(transpose.getPermutation(), permutation);
  }
  if (isIdentityPermutation(permutation))
    return value;
  return TransposeOp::create(b, value, permutation);
}

/// Returns the operand of a reshape that merges all axes but the last two into
/// one; null for other values.
static Value getUnmerged(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape || getTensor(value).getRank() != 3 ||
      getTensor(reshape.getX()).getRank() < 3)
    return {};
  return getTensor(value).getShape().take_back(2) ==
                 getTensor(reshape.getX()).getShape().take_back(2)
             ? reshape.getX()
             : Value();
}

namespace {
/// Keys or values that several heads read, of which exporters make a copy for
/// each head.
struct Copied {
  Value base;
  int64_t heads; ///< Copies of each head.
  int64_t axis;  ///< The axis of heads.
  /// Shape of keys or values, with an axis of size 1 instead of the copies.
  SmallVector<int64_t> shape;

  /// Splits the axis of heads of `from` into groups and their heads.
  SmallVector<int64_t> splitHeads(ArrayRef<int64_t> from) const {
    SmallVector<int64_t> split(from);
    split[axis] /= heads;
    split.insert(split.begin() + axis + 1, heads);
    return split;
  }
};
} // namespace

/// Matches reshape(broadcast(x)), where the broadcast adds copies along an axis
/// after the heads [..., G, 1, K, D], and the reshape merges them.
static std::optional<Copied> findCopied(Value value) {
  constexpr int64_t kMaxRank = 5;
  auto merge = value.getDefiningOp<ReshapeOp>();
  auto broadcast =
      merge ? merge.getX().getDefiningOp<BroadcastOp>() : BroadcastOp();
  ArrayRef<int64_t> merged = getTensor(value).getShape();
  int64_t rank = merged.size();
  if (!broadcast || rank < 3 || rank > kMaxRank)
    return std::nullopt;
  ArrayRef<int64_t> copies = getTensor(broadcast.getResult()).getShape(),
                    from = getTensor(broadcast.getX()).getShape();
  Copied found{broadcast.getX(), 1, rank - 3, {}};
  int64_t copied = rank - 2;
  if (static_cast<int64_t>(copies.size()) != rank + 1)
    return std::nullopt;
  found.heads = copies[copied];
  if (found.heads < 2 || merged[found.axis] % found.heads != 0 ||
      ArrayRef(found.splitHeads(merged)) != copies)
    return std::nullopt;
  found.shape.assign(copies.begin(), copies.end());
  found.shape[copied] = 1;
  // All other axes are in the operand, in order.
  SmallVector<int64_t> axes;
  for (auto [axis, size] : llvm::zip(broadcast.getAxes(), from)) {
    if (size != found.shape[axis])
      return std::nullopt;
    if (axis != copied)
      axes.push_back(axis);
  }
  SmallVector<int64_t> wanted =
      llvm::to_vector(llvm::seq<int64_t>(0, rank + 1));
  wanted.erase(wanted.begin() + copied);
  return axes == wanted ? std::optional(found) : std::nullopt;
}

namespace {
/// Removes reshapes around a matmul: exporters merge batch and heads into one
/// axis before a matmul, and split them afterwards.
struct UnmergeMatmul : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    Value lhs = getUnmerged(op.getLhs()), rhs = getUnmerged(op.getRhs());
    if (!lhs || !rhs || op.getBias() || op.getPrecisionAttr() ||
        !op->hasOneUse())
      return failure();
    SmallVector<int64_t> shape(getTensor(lhs).getShape().drop_back(2));
    if (getTensor(rhs).getShape().drop_back(2) != ArrayRef(shape))
      return failure();
    llvm::append_range(shape,
                       getTensor(op.getResult()).getShape().take_back(2));
    auto apart = dyn_cast<ReshapeOp>(*op->user_begin());
    if (!apart || getTensor(apart.getResult()).getShape() != ArrayRef(shape))
      return failure();
    rewriter.replaceOpWithNewOp<MatmulOp>(
        apart, apart.getResult().getType(), lhs, rhs, Value(),
        op.getTransposeLhs(), op.getTransposeRhs());
    return success();
  }
};

/// Replaces dropout(softmax(mask(cap(scale q k^T) + bias))) v by `attention`.
struct RecognizeAttention : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MatmulOp root,
                                PatternRewriter &rewriter) const override {
    Composite composite(root);
    if (root.getBias() || root.getTransposeLhs() || root.getPrecisionAttr())
      return failure();
    auto dropout = composite.take<DropoutOp>(root.getLhs());
    Value weights = dropout ? dropout.getX() : root.getLhs();
    auto hidden = takeHiddenRows(composite, weights);
    auto softmax = hidden ? composite.takeShared<SoftmaxOp>(hidden.getRhs())
                          : composite.take<SoftmaxOp>(weights);
    AttentionScores scores;
    if (!softmax || failed(scores.match(composite, softmax.getX())))
      return failure();
    auto product = composite.take<MatmulOp>(scores.product);
    if (!product || product.getBias() || !composite.isClosed())
      return failure();
    auto [query, queryScale] = takeScale(composite, product.getLhs());
    auto [key, keyScale] = takeScale(composite, product.getRhs());
    double scale = scores.scale * queryScale * keyScale;
    if (!std::isfinite(scale))
      return failure();
    ImplicitLocOpBuilder b(composite.getLoc(), rewriter);
    if (product.getTransposeLhs())
      query = swapAxes(b, query);
    if (!product.getTransposeRhs())
      key = swapAxes(b, key);
    Value value = root.getRhs();
    if (root.getTransposeRhs())
      value = swapAxes(b, value);
    auto attention = AttentionOp::create(b, query, key, value, APFloat(scale),
                                         /*causal=*/false);
    b.setInsertionPoint(attention);
    scores.apply(b, attention);
    attention.setZeroHidden(hidden != nullptr);
    attention.setZeroNan(hidden != nullptr);
    if (dropout) {
      attention.getRngMutable().assign(dropout.getRng());
      attention.setRatio(dropout.getRatio());
      attention.setStream(dropout.getStream());
    }
    rewriter.replaceOp(root, attention.getY());
    return success();
  }

private:
  /// Adds isNaN(p) ? 0 : p to the composite, which replaces the probabilities p
  /// of queries without visible keys; returns null if `value` is not that.
  static SelectOp takeHiddenRows(Composite &composite, Value value) {
    auto select = value.getDefiningOp<SelectOp>();
    SmallVector<Operation *> test;
    if (!select || !isSplat(select.getLhs(), 0.0) ||
        getTestedForNaN(select.getCondition(), test) != select.getRhs() ||
        !composite.take<SelectOp>(value) || !composite.takeAll(test))
      return {};
    return select;
  }
};

/// Lets heads share keys and values of which they read copies.
struct ShareKeys : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    std::optional<Copied> key = findCopied(op.getKey()),
                          value = findCopied(op.getValue());
    if (!key || !value || key->heads != value->heads || op.getPrecisionAttr())
      return failure();
    auto split = [&](RankedTensorType type) {
      return key->splitHeads(type.getShape());
    };
    Value query =
        buildReshape(b, op.getQuery(), split(getTensor(op.getQuery())));
    auto attention =
        AttentionOp::create(b, query, buildReshape(b, key->base, key->shape),
                            buildReshape(b, value->base, value->shape),
                            op.getScale(), op.getCausal());
    b.setInsertionPoint(attention);
    attention.copyExtras(op);
    auto splitBroadcast = [&](OpOperand &operand) {
      SmallVector<int64_t> shape(getTensor(operand.get()).getShape());
      bool isShared = shape[key->axis] == 1;
      shape[key->axis] = isShared ? 1 : shape[key->axis] / key->heads;
      shape.insert(shape.begin() + key->axis + 1, isShared ? 1 : key->heads);
      operand.set(buildReshape(b, operand.get(), shape));
    };
    for (OpOperand &bias : attention.getBiasesMutable())
      splitBroadcast(bias);
    for (OpOperand &mask : attention.getMaskMutable())
      splitBroadcast(mask);
    b.setInsertionPointAfter(attention);
    SmallVector<Value> results;
    for (auto [own, old] : llvm::zip(attention.getResults(), op.getResults()))
      results.push_back(buildReshape(b, own, getTensor(old).getShape()));
    rewriter.replaceOp(op, results);
    return success();
  }
};
} // namespace

void mlir::binade::populateAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add<UnmergeMatmul, RecognizeAttention, ShareKeys>(
      patterns.getContext());
}
