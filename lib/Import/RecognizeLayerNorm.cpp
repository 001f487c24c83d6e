//===- RecognizeLayerNorm.cpp - Layer normalization from primitives -------===//

#include "Composites.h"

using namespace mlir;
using namespace mlir::binade;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Looks through the reshape that keeps a reduced last axis as 1.
static Value takeKeptAxis(Composite &composite, Value value) {
  auto reshape = composite.takeShared<ReshapeOp>(value);
  if (!reshape)
    return value;
  ArrayRef<int64_t> kept = getShape(value);
  bool isKept = !kept.empty() && kept.back() == 1 &&
                kept.drop_back() == getShape(reshape.getX());
  return isKept ? reshape.getX() : Value();
}

/// The operand of a broadcast of one number per row to `shape`.
static Value takePerRow(Composite &composite, Value value) {
  auto broadcast = composite.takeShared<BroadcastOp>(value);
  if (!broadcast)
    return {};
  ArrayRef<int64_t> from = getShape(broadcast.getX()), to = getShape(value);
  bool isRow =
      llvm::equal(broadcast.getAxes(), llvm::seq<int64_t>(0, from.size())) &&
      from.size() == to.size() && from.back() == 1 &&
      from.drop_back() == to.drop_back();
  return isRow ? broadcast.getX() : Value();
}

/// The operand of a mean over the last axis that is kept as 1.
static Value takeMean(Composite &composite, Value value) {
  Value reduced = takeKeptAxis(composite, value);
  auto mean =
      reduced ? composite.takeShared<ReduceMeanOp>(reduced) : ReduceMeanOp();
  if (!mean)
    return {};
  int64_t last = static_cast<int64_t>(getShape(mean.getX()).size()) - 1;
  return ArrayRef(mean.getAxes()) == ArrayRef(last) ? mean.getX() : Value();
}

/// x in x - mean(x).
static Value takeCentered(Composite &composite, Value value) {
  auto difference = composite.takeShared<SubOp>(value);
  Value mean =
      difference ? takePerRow(composite, difference.getRhs()) : Value();
  Value x = mean ? takeMean(composite, mean) : Value();
  return x && x == difference.getLhs() ? x : Value();
}

/// Whether `value` is mean((x - mean(x))^2) + epsilon; sets epsilon.
static bool takeVariance(Composite &composite, Value value, Value x,
                         std::optional<APFloat> &epsilon) {
  auto sum = composite.takeShared<AddOp>(value);
  if (!sum)
    return false;
  Value variance = sum.getLhs();
  epsilon = getSplat(sum.getRhs());
  if (!epsilon) {
    variance = sum.getRhs();
    epsilon = getSplat(sum.getLhs());
  }
  Value square = epsilon ? takeMean(composite, variance) : Value();
  if (!square)
    return false;
  if (auto pow = composite.takeShared<PowOp>(square))
    return isSplat(pow.getRhs(), 2.0) &&
           takeCentered(composite, pow.getLhs()) == x;
  auto product = composite.takeShared<MulOp>(square);
  return product && product.getLhs() == product.getRhs() &&
         takeCentered(composite, product.getLhs()) == x;
}

/// x of (x - mean(x)) / sqrt(variance + epsilon), or times the reciprocal root;
/// sets epsilon.
static Value takeNormalized(Composite &composite, Value value,
                            std::optional<APFloat> &epsilon) {
  Value centered, root;
  if (auto quotient = composite.takeShared<DivOp>(value)) {
    centered = quotient.getLhs();
    root = takePerRow(composite, quotient.getRhs());
  } else if (auto product = composite.takeShared<MulOp>(value)) {
    centered = product.getLhs();
    Value factor = takePerRow(composite, product.getRhs());
    auto reciprocal =
        factor ? composite.takeShared<ReciprocalOp>(factor) : ReciprocalOp();
    root = reciprocal ? reciprocal.getX() : Value();
  }
  Value x = root ? takeCentered(composite, centered) : Value();
  auto sqrt = x ? composite.takeShared<SqrtOp>(root) : SqrtOp();
  return sqrt && takeVariance(composite, sqrt.getX(), x, epsilon) ? x : Value();
}

namespace {
/// normalized(x) scale
struct RecognizeLayerNorm : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MulOp root,
                                PatternRewriter &rewriter) const override {
    if (root.getPrecisionAttr())
      return failure();
    for (auto [normalized, factor] :
         {std::pair(root.getLhs(), root.getRhs()),
          std::pair(root.getRhs(), root.getLhs())}) {
      Value scale = getPerColumn(factor);
      if (!scale)
        continue;
      Composite composite(root);
      std::optional<APFloat> epsilon;
      Value x = takeNormalized(composite, normalized, epsilon);
      if (!x || !composite.isClosed())
        continue;
      bool losesInfo;
      epsilon->convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                       &losesInfo);
      ImplicitLocOpBuilder b(composite.getLoc(), rewriter);
      rewriter.replaceOp(root, LayerNormOp::create(b, x, scale, Value(),
                                                   *epsilon, PrecisionAttr())
                                   .getY());
      return success();
    }
    return failure();
  }
};

/// layer_norm without a bias + bias
struct RecognizeLayerNormBias : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AddOp root,
                                PatternRewriter &rewriter) const override {
    if (root.getPrecisionAttr())
      return failure();
    for (auto [value, addend] : {std::pair(root.getLhs(), root.getRhs()),
                                 std::pair(root.getRhs(), root.getLhs())}) {
      Value bias = getPerColumn(addend);
      Composite composite(root);
      auto norm = bias ? composite.take<LayerNormOp>(value) : LayerNormOp();
      if (!norm || norm.getBias() || norm.getY() != value ||
          !norm.getMean().use_empty() || !norm.getRstd().use_empty())
        continue;
      (void)composite.take<BroadcastOp>(addend);
      ImplicitLocOpBuilder b(composite.getLoc(), rewriter);
      rewriter.replaceOp(
          root, LayerNormOp::create(b, norm.getX(), norm.getScale(), bias,
                                    norm.getEpsilon(), PrecisionAttr())
                    .getY());
      return success();
    }
    return failure();
  }
};
} // namespace

void mlir::binade::populateLayerNormPatterns(RewritePatternSet &patterns) {
  patterns.add<RecognizeLayerNorm, RecognizeLayerNormBias>(
      patterns.getContext());
}
