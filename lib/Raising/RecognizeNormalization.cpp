//===- RecognizeNormalization.cpp - Layer, RMS, group and batch norm ------===//

#include "Normalized.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

/// Ops behind the statistics of a batch, which update running ones.
static constexpr size_t kMaxUpdates = 64;

/// Whether `view` has the elements of its tensor, all and in their order, along
/// `axes` of the frame, and the same everywhere else.
static bool isAlong(const View &view, ArrayRef<int64_t> frame,
                    ArrayRef<int64_t> axes) {
  SmallVector<int64_t> own(frame.size(), 1);
  for (int64_t axis : axes)
    own[axis] = frame[axis];
  return view.strides == getRowMajor(own) &&
         getNumElements(view.value) == ShapedType::getNumElements(own);
}

/// The same of scale and bias, where they are there at all.
static bool areAlong(const Normalized &norm, ArrayRef<int64_t> axes) {
  return llvm::all_of(ArrayRef<const View *>{&norm.getScale(), &norm.getBias()},
                      [&](const View *view) {
                        return !view->value ||
                               isAlong(*view, norm.getFrame(), axes);
                      });
}

/// A tensor of `shape` with the elements of `view`, or `otherwise` everywhere.
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
// Over the last axes
//===----------------------------------------------------------------------===//

static bool isOverLast(const Normalized &norm) {
  int64_t rank = norm.getFrame().size(), count = norm.getAxes().size();
  return llvm::equal(norm.getAxes(), llvm::seq(rank - count, rank));
}

static int64_t getRowLength(const Normalized &norm) {
  return ShapedType::getNumElements(
      norm.getFrame().take_back(norm.getAxes().size()));
}

/// The axes of the frame along which scale and bias are, if these are not those
/// of a row; empty where it is not both of them.
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

/// x as rows of what it is normalized over.
static Value buildRows(ImplicitLocOpBuilder &b, const Normalized &norm) {
  ArrayRef<int64_t> frame = norm.getFrame();
  SmallVector<int64_t> flat(frame.drop_back(norm.getAxes().size()));
  flat.push_back(getRowLength(norm));
  return buildReshape(b, norm.getX(), flat);
}

/// `rms_norm` of the rows; null where the scale is none that it has.
static Value buildRmsNorm(ImplicitLocOpBuilder &b, const Normalized &norm) {
  if (!areAlong(norm, norm.getAxes()))
    return {};
  Value scale =
      buildParameter(b, norm, norm.getScale(), getRowLength(norm), 1.0);
  return RmsNormOp::create(b, buildRows(b, norm), scale,
                           APFloat(norm.getEpsilon()), PrecisionAttr())
      .getY();
}

/// `layer_norm` of the rows; null where scale and bias are none that it has.
/// Those of the channels of a group are applied afterwards.
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
// Over all axes but one
//===----------------------------------------------------------------------===//

/// The axis that is left; -1 where it is not one.
static int64_t findChannel(const Normalized &norm) {
  int64_t rank = norm.getFrame().size(), found = -1;
  if (static_cast<int64_t>(norm.getAxes().size()) != rank - 1)
    return -1;
  for (int64_t axis = 0; axis < rank; ++axis)
    if (!llvm::is_contained(norm.getAxes(), axis))
      found = axis;
  return found;
}

/// Whether no loss depends on `values` but through what is inside `norm`: no
/// gradient flows through the statistics of a batch elsewhere.
static bool areOnlyKept(const Normalized &norm, ArrayRef<Value> values) {
  SetVector<Operation *> behind;
  for (Value value : values)
    for (Operation *user : value.getUsers())
      if (!norm.composite.contains(user))
        behind.insert(user);
  if (behind.empty())
    return true;
  auto function =
      norm.getX().getParentRegion()->getParentOfType<func::FuncOp>();
  SmallVector<Port> losses = getResults(function, Role::Metric);
  auto isLoss = [&](Operation *op) {
    return llvm::any_of(losses, [&](const Port &loss) {
      return getResultValue(function, loss.index).getDefiningOp() == op;
    });
  };
  for (size_t next = 0; next < behind.size(); ++next) {
    Operation *op = behind[next];
    if (behind.size() > kMaxUpdates || norm.composite.contains(op) ||
        isLoss(op))
      return false;
    behind.insert_range(op->getUsers());
  }
  // Any result may become the loss of a function that has none.
  return !losses.empty();
}

/// Uses outside of `norm` of any of `values` read `statistic` instead.
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

/// `batch_norm` with the statistics of the batch, which running ones may read.
static Value buildBatchNorm(ImplicitLocOpBuilder &b, PatternRewriter &rewriter,
                            const Normalized &norm, int64_t axis) {
  ArrayRef<int64_t> frame = norm.getFrame();
  SmallVector<Value> means = norm.getMeans(), variances = norm.getVariances();
  BatchNormStatisticsOp statistics;
  {
    // Who reads them may come before the result.
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
         areOnlyKept(norm, open);
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {
/// (x - mean) / root scale + bias, or x / root scale where it is not that;
/// `Root` is what has the root.
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

void mlir::binade::populateNormalizationPatterns(RewritePatternSet &patterns) {
  patterns.add<RecognizeNormalization<SqrtOp>, RecognizeNormalization<PowOp>,
               RecognizeLayerNormBias>(patterns.getContext());
}
