//===- RecognizeNormalization.cpp - Recognition of normalizations ---------===//

#include "Normalized.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

/// The maximum number of ops that depend on the statistics of a batch outside
/// the norm, to update running statistics.
static constexpr size_t kMaxUpdates = 64;

/// Whether `view` is its whole tensor, in row-major order, along `axes` of the
/// frame, and constant along the other axes.
static bool isAlong(const View &view, ArrayRef<int64_t> frame,
                    ArrayRef<int64_t> axes) {
  SmallVector<int64_t> own(frame.size(), 1);
  for (int64_t axis : axes)
    own[axis] = frame[axis];
  return view.strides == getRowMajor(own) &&
         getNumElements(view.value) == ShapedType::getNumElements(own);
}

/// Whether `isAlong` holds for scale and bias, if they exist.
static bool areAlong(const Normalized &norm, ArrayRef<int64_t> axes) {
  return llvm::all_of(ArrayRef<const View *>{&norm.getScale(), &norm.getBias()},
                      [&](const View *view) {
                        return !view->value ||
                               isAlong(*view, norm.getFrame(), axes);
                      });
}

/// Builds a tensor of `shape` with the elements of `view`, or filled with
/// `otherwise` if there is no view.
static Value buildParameter(ImplicitLocOpBuilder &b, const Normalized &norm,
                            const View &view, ArrayRef<int64_t> shape,
                            double otherwise) {
  if (view.value)
    return buildReshape(b, view.value, shape);
  return buildSplat(
      b, RankedTensorType::get(shape, getElementTypeOrSelf(norm.getX())),
      otherwise);
}

//===----------------------------------------------------------------------===//
// Norms over the last axes
//===----------------------------------------------------------------------===//

static bool isOverLast(const Normalized &norm) {
  int64_t rank = norm.getFrame().size(), count = norm.getAxes().size();
  return llvm::equal(norm.getAxes(), llvm::seq(rank - count, rank));
}

static int64_t getRowLength(const Normalized &norm) {
  return ShapedType::getNumElements(
      norm.getFrame().take_back(norm.getAxes().size()));
}

/// Returns the axes of the frame along which scale and bias vary; empty if one
/// of them is missing or they vary along different axes.
static SmallVector<int64_t> findChannels(const Normalized &norm) {
  SmallVector<int64_t> axes;
  if (!norm.getScale().value || !norm.getBias().value)
    return axes;
  for (auto [axis, stride] : llvm::enumerate(norm.getScale().strides))
    if (stride != 0)
      axes.push_back(axis);
  if (!areAlong(norm, axes))
    axes.clear();
  return axes;
}

/// Reshapes x to rows of the normalized axes.
static Value buildRows(ImplicitLocOpBuilder &b, const Normalized &norm) {
  ArrayRef<int64_t> frame = norm.getFrame();
  SmallVector<int64_t> flat(frame.drop_back(norm.getAxes().size()));
  flat.push_back(getRowLength(norm));
  return buildReshape(b, norm.getX(), flat);
}

/// Builds `rms_norm` of the rows; null if the scale does not fit.
static Value buildRmsNorm(ImplicitLocOpBuilder &b, const Normalized &norm) {
  if (!areAlong(norm, norm.getAxes()))
    return {};
  Value scale =
      buildParameter(b, norm, norm.getScale(), getRowLength(norm), 1.0);
  return RmsNormOp::create(b, buildRows(b, norm), scale,
                           APFloat(norm.getEpsilon()), PrecisionAttr())
      .getY();
}

/// Builds `layer_norm` of the rows; null if scale and bias do not fit. A scale
/// and a bias per channel, as in a group norm, are applied afterwards.
static Value buildLayerNorm(ImplicitLocOpBuilder &b, const Normalized &norm) {
  ArrayRef<int64_t> frame = norm.getFrame();
  int64_t length = getRowLength(norm);
  bool isOfRows = areAlong(norm, norm.getAxes());
  SmallVector<int64_t> channels;
  if (!isOfRows && (channels = findChannels(norm)).empty())
    return {};

  View none;
  Value scale =
      buildParameter(b, norm, isOfRows ? norm.getScale() : none, length, 1.0);
  Value bias;
  if (isOfRows && norm.getBias().value)
    bias = buildReshape(b, norm.getBias().value, length);
  Value y = LayerNormOp::create(b, buildRows(b, norm), scale, bias,
                                APFloat(norm.getEpsilon()), PrecisionAttr())
                .getY();
  if (isOfRows)
    return y;
  auto spread = [&](const View &view) {
    SmallVector<int64_t> shape = llvm::map_to_vector(
        channels, [&](int64_t axis) { return frame[axis]; });
    return buildBroadcast(b, buildReshape(b, view.value, shape), channels,
                          frame);
  };
  y = MulOp::create(b, buildReshape(b, y, frame), spread(norm.getScale()));
  return AddOp::create(b, y, spread(norm.getBias()));
}

//===----------------------------------------------------------------------===//
// Norms over all axes but one
//===----------------------------------------------------------------------===//

/// Returns the only axis that is not normalized; -1 if there is not exactly
/// one.
static int64_t findChannel(const Normalized &norm) {
  int64_t rank = norm.getFrame().size(), found = -1;
  if (static_cast<int64_t>(norm.getAxes().size()) != rank - 1)
    return -1;
  for (int64_t axis = 0; axis < rank; ++axis)
    if (!llvm::is_contained(norm.getAxes(), axis))
      found = axis;
  return found;
}

/// Whether no loss depends on `values` except through `norm`:
/// `batch_norm_statistics` passes no gradient to other users.
static bool areUnusedByLoss(const Normalized &norm, ArrayRef<Value> values) {
  SetVector<Operation *> dependents;
  for (Value value : values)
    for (Operation *user : value.getUsers())
      if (!norm.composite.contains(user))
        dependents.insert(user);
  if (dependents.empty())
    return true;
  auto function =
      norm.getX().getParentRegion()->getParentOfType<func::FuncOp>();
  SmallVector<Port> losses = getResults(function, Role::Metric);
  auto isLoss = [&](Operation *op) {
    return llvm::any_of(losses, [&](const Port &loss) {
      return getResultValue(function, loss.index).getDefiningOp() == op;
    });
  };
  for (size_t next = 0; next < dependents.size(); ++next) {
    Operation *op = dependents[next];
    if (dependents.size() > kMaxUpdates || norm.composite.contains(op) ||
        isLoss(op))
      return false;
    dependents.insert_range(op->getUsers());
  }
  // Without a loss, any result may become one.
  return !losses.empty();
}

/// Replaces uses of `values` outside `norm` by `statistic`.
static void replaceOutside(ImplicitLocOpBuilder &b, PatternRewriter &rewriter,
                           const Normalized &norm, ArrayRef<Value> values,
                           Value statistic) {
  for (Value value : values) {
    auto isOutside = [&](OpOperand &use) {
      return !norm.composite.contains(use.getOwner());
    };
    if (llvm::none_of(value.getUses(), isOutside))
      continue;
    Value shaped = buildReshape(b, statistic, getTensor(value).getShape());
    rewriter.replaceUsesWithIf(value, shaped, isOutside);
  }
}

/// Builds `batch_norm` with the statistics of the batch, which updates of
/// running statistics may also read.
static Value buildBatchNorm(ImplicitLocOpBuilder &b, PatternRewriter &rewriter,
                            const Normalized &norm, int64_t axis) {
  ArrayRef<int64_t> frame = norm.getFrame();
  SmallVector<Value> means = norm.getMeans(), variances = norm.getVariances();
  BatchNormStatisticsOp statistics;
  {
    // Users of the statistics may come before the result.
    OpBuilder::InsertionGuard guard(rewriter);
    b.setInsertionPointAfterValue(norm.getX());
    statistics = BatchNormStatisticsOp::create(
        b, buildReshape(b, norm.getX(), frame), axis, PrecisionAttr());
    replaceOutside(b, rewriter, norm, means, statistics.getMean());
    replaceOutside(b, rewriter, norm, variances, statistics.getVariance());
  }
  b.setInsertionPoint(norm.getResult());
  return BatchNormOp::create(
      b, statistics.getX(),
      buildParameter(b, norm, norm.getScale(), frame[axis], 1.0),
      buildParameter(b, norm, norm.getBias(), frame[axis], 0.0),
      statistics.getMean(), statistics.getVariance(),
      APFloat(norm.getEpsilon()), axis, /*training=*/true, PrecisionAttr());
}

static bool isBatchNorm(const Normalized &norm, int64_t axis) {
  SmallVector<Value> open = norm.getMeans();
  llvm::append_range(open, norm.getVariances());
  return axis >= 0 && getElementTypeOrSelf(norm.getX()).isF32() &&
         areAlong(norm, axis) && norm.composite.isClosed(open) &&
         areUnusedByLoss(norm, open);
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {
/// Replaces (x - mean) / root scale + bias, or else x / root scale, by a norm.
/// `Root` is the op of the root.
template <typename Root>
struct RecognizeNormalization : OpRewritePattern<Root> {
  using OpRewritePattern<Root>::OpRewritePattern;

  LogicalResult matchAndRewrite(Root root,
                                PatternRewriter &rewriter) const override {
    SmallVector<Operation *> results = Normalized::findResults(root);
    for (bool subtractsMean : {true, false})
      for (Operation *result : results) {
        Normalized norm(result, root, subtractsMean);
        if (norm.match() && succeeded(rewrite(norm, rewriter)))
          return success();
      }
    return failure();
  }

private:
  static LogicalResult rewrite(const Normalized &norm,
                               PatternRewriter &rewriter) {
    Operation *result = norm.getResult();
    ImplicitLocOpBuilder b(norm.composite.getLoc(), rewriter);
    rewriter.setInsertionPoint(result);
    b.setInsertionPoint(result);
    Value y;
    if (isOverLast(norm)) {
      if (norm.composite.isClosed())
        y = norm.subtractsMean ? buildLayerNorm(b, norm)
                               : buildRmsNorm(b, norm);
    } else if (int64_t axis = findChannel(norm);
               norm.subtractsMean && isBatchNorm(norm, axis)) {
      y = buildBatchNorm(b, rewriter, norm, axis);
    }
    if (!y)
      return failure();
    rewriter.replaceOp(
        result, buildReshape(b, y, getTensor(result->getResult(0)).getShape()));
    return success();
  }
};

/// Merges layer_norm + bias into the layer_norm, if it has no bias.
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

void mlir::binade::populateNormalizationPatterns(RewritePatternSet &patterns) {
  patterns.add<RecognizeNormalization<SqrtOp>, RecognizeNormalization<PowOp>,
               RecognizeLayerNormBias>(patterns.getContext());
}
