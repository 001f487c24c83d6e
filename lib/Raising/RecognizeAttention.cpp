//===- RecognizeAttention.cpp - Recognition of attention ------------------===//

#include "Composites.h"
#include "binade/IR/Movement.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
enum class Mask { None, Causal, Other };
} // namespace

static double getDouble(APFloat value) {
  bool losesInfo;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToDouble();
}

/// Whether adding `value` to a score makes its softmax exactly zero.
static bool hides(double value) { return value <= -1e30; }

/// Returns the constant of which `value` is a broadcast along leading axes, or
/// which it is; null for other values.
static DenseElementsAttr getConstant(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    auto rank = cast<RankedTensorType>(value.getType()).getRank();
    int64_t from = cast<RankedTensorType>(broadcast.getX().getType()).getRank();
    if (!llvm::equal(broadcast.getAxes(),
                     llvm::seq<int64_t>(rank - from, rank)))
      return {};
    value = broadcast.getX();
  }
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                  : DenseElementsAttr();
}

/// Returns the kind of a mask for scores [..., queries, keys]. A position is
/// visible, if the mask adds exactly 0, or hidden; a mask with other values is
/// of kind Other.
template <typename T>
static Mask classify(DenseElementsAttr mask, int64_t queries, int64_t keys,
                     function_ref<std::optional<bool>(const T &)> isVisible) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(mask.getType()).getShape();
  bool isWhole = shape.size() >= 2 && shape.back() == keys &&
                 shape[shape.size() - 2] == queries;
  bool hidesNone = true, isCausal = isWhole && queries == keys;
  int64_t query = 0, key = 0;
  for (const T &value : mask.getValues<T>()) {
    std::optional<bool> visible = isVisible(value);
    if (!visible)
      return Mask::Other;
    hidesNone &= *visible;
    isCausal &= *visible != (key > query);
    if (!hidesNone && !isCausal)
      return Mask::Other;
    if (++key == keys) {
      key = 0;
      query = query + 1 == queries ? 0 : query + 1;
    }
  }
  return hidesNone ? Mask::None : Mask::Causal;
}

/// Splits masked scores into the scores and the kind of mask.
static std::pair<Value, Mask> takeMask(Composite &composite, Value value) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
  int64_t queries = shape[shape.size() - 2], keys = shape.back();
  if (auto sum = composite.take<AddOp>(value)) {
    bool isLeft = static_cast<bool>(getConstant(sum.getLhs()));
    DenseElementsAttr mask = getConstant(isLeft ? sum.getLhs() : sum.getRhs());
    if (!mask)
      return {value, Mask::Other};
    auto isVisible = [](double x) {
      return x == 0     ? std::optional(true)
             : hides(x) ? std::optional(false)
                        : std::nullopt;
    };
    // Reading f32 elements directly is ten times as fast.
    Mask kind =
        mask.getElementType().isF32()
            ? classify<float>(mask, queries, keys, isVisible)
            : classify<APFloat>(mask, queries, keys, [&](const APFloat &x) {
                return isVisible(getDouble(x));
              });
    return {isLeft ? sum.getRhs() : sum.getLhs(), kind};
  }
  if (auto select = composite.take<SelectOp>(value)) {
    DenseElementsAttr condition = getConstant(select.getCondition());
    std::optional<APFloat> lhs = getSplat(select.getLhs()),
                           rhs = getSplat(select.getRhs());
    bool hidesWhereTrue = lhs && !rhs;
    std::optional<APFloat> hidden = hidesWhereTrue ? lhs : rhs;
    if (!condition || !hidden || !hides(getDouble(*hidden)))
      return {value, Mask::Other};
    Mask kind = classify<bool>(condition, queries, keys, [&](bool holds) {
      return std::optional(holds != hidesWhereTrue);
    });
    return {hidesWhereTrue ? select.getRhs() : select.getLhs(), kind};
  }
  return {value, Mask::None};
}

/// Splits `value` into a tensor and a constant factor, which may be 1.
static std::pair<Value, double> takeScale(Composite &composite, Value value) {
  if (auto product = value.getDefiningOp<MulOp>())
    for (auto [factor, rest] : {std::pair(product.getLhs(), product.getRhs()),
                                std::pair(product.getRhs(), product.getLhs())})
      if (std::optional<APFloat> splat = getSplat(factor);
          splat && composite.take<MulOp>(value))
        return {rest, getDouble(*splat)};
  if (auto quotient = value.getDefiningOp<DivOp>())
    if (std::optional<APFloat> splat = getSplat(quotient.getRhs());
        splat && composite.take<DivOp>(value))
      return {quotient.getLhs(), 1.0 / getDouble(*splat)};
  return {value, 1.0};
}

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
struct UnmergeProduct : OpRewritePattern<MatmulOp> {
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

/// Replaces softmax(scale q k^T + mask) v by `attention`.
struct RecognizeAttention : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MatmulOp root,
                                PatternRewriter &rewriter) const override {
    Composite composite(root);
    auto softmax = composite.take<SoftmaxOp>(root.getLhs());
    if (!softmax || root.getBias() || root.getTransposeLhs() ||
        root.getPrecisionAttr())
      return failure();
    auto [masked, mask] = takeMask(composite, softmax.getX());
    if (mask == Mask::Other)
      return failure();
    auto [scores, scale] = takeScale(composite, masked);
    auto product = composite.take<MatmulOp>(scores);
    if (!product || product.getBias())
      return failure();
    auto [query, queryScale] = takeScale(composite, product.getLhs());
    auto [key, keyScale] = takeScale(composite, product.getRhs());
    scale *= queryScale * keyScale;
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
                                         mask == Mask::Causal);
    rewriter.replaceOp(root, attention.getY());
    return success();
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
    SmallVector<Value> results;
    for (auto [own, old] : llvm::zip(attention.getResults(), op.getResults()))
      results.push_back(buildReshape(b, own, getTensor(old).getShape()));
    rewriter.replaceOp(op, results);
    return success();
  }
};
} // namespace

void mlir::binade::populateAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add<UnmergeProduct, RecognizeAttention, ShareKeys>(
      patterns.getContext());
}
