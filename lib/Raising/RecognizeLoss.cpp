//===- RecognizeLoss.cpp - Recognition of cross-entropy -------------------===//

#include "Composites.h"
#include "binade/IR/Build.h"
#include "binade/IR/Movement.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
struct Labels {
  Value value; ///< One label per row.
  uint64_t ignored;
};
} // namespace

/// The default of PyTorch, used if no label is ignored.
static constexpr int64_t kIgnored = -100;

/// Returns the element of a splat constant of integers, or nothing.
static std::optional<APInt> getInteger(Value value) {
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat() ||
      !isa<IntegerType>(elements.getElementType()))
    return std::nullopt;
  return elements.getSplatValue<APInt>();
}

static bool isInteger(Value value, int64_t number) {
  std::optional<APInt> found = getInteger(value);
  return found && found->getSExtValue() == number;
}

/// Returns i if `value` is i < 0 ? i + size : i, with i checked to be in
/// [-size, size); null otherwise.
static Value takeWrapped(Composite &composite, Value value, int64_t size) {
  auto select = composite.takeShared<SelectOp>(value);
  Value index = select ? select.getRhs() : Value();
  auto sum = index ? composite.takeShared<AddOp>(select.getLhs()) : AddOp();
  auto isBelow = sum ? composite.takeShared<CompareOp>(select.getCondition())
                     : CompareOp();
  auto check =
      isBelow ? composite.takeShared<CheckIndexOp>(index) : CheckIndexOp();
  bool isWrapped =
      check && sum.getLhs() == index && isInteger(sum.getRhs(), size) &&
      isBelow.getComparison() == Comparison::Less &&
      isBelow.getLhs() == index && isInteger(isBelow.getRhs(), 0) &&
      static_cast<int64_t>(check.getHigh()) == size &&
      static_cast<int64_t>(check.getLow()) == -size;
  return isWrapped ? check.getX() : Value();
}

/// Returns c if `value` is row * classes + c, with one c per row, which may be
/// negative; null otherwise.
static Value takeColumn(Composite &composite, Value value, int64_t classes) {
  auto sum = composite.takeShared<AddOp>(value);
  auto column = sum ? composite.takeShared<MulOp>(sum.getLhs()) : MulOp();
  auto row = column ? composite.takeShared<MulOp>(sum.getRhs()) : MulOp();
  auto count = row ? composite.takeShared<IotaOp>(row.getLhs()) : IotaOp();
  if (!count || count.getAxis() != 0 || !isInteger(row.getRhs(), classes) ||
      !isInteger(column.getRhs(), 1))
    return {};
  return takeWrapped(composite, column.getLhs(), classes);
}

/// Returns the labels if `index`, [rows, 1], is the label where `valid` and 0
/// for ignored labels; nothing otherwise.
static std::optional<Labels> getLabels(Composite &composite, Value index,
                                       Value valid) {
  auto column = composite.takeShared<ReshapeOp>(index);
  auto select =
      column ? composite.takeShared<SelectOp>(column.getX()) : SelectOp();
  auto isOther = valid.getDefiningOp<NotOp>();
  auto isIgnored =
      isOther ? isOther.getOperand().getDefiningOp<CompareOp>() : CompareOp();
  if (!select || !isIgnored || select.getCondition() != valid ||
      isIgnored.getLhs() != select.getLhs() ||
      isIgnored.getComparison() != Comparison::Equal ||
      !isInteger(select.getRhs(), 0))
    return std::nullopt;
  std::optional<APInt> ignored = getInteger(isIgnored.getRhs());
  if (!ignored)
    return std::nullopt;
  return Labels{select.getLhs(),
                static_cast<uint64_t>(ignored->getSExtValue())};
}

/// Returns constant labels that are all valid; nothing otherwise.
static std::optional<Labels> getKnownLabels(Value index, Value valid) {
  DenseElementsAttr numbers, conditions;
  if (!matchPattern(index, m_Constant(&numbers)) ||
      !matchPattern(valid, m_Constant(&conditions)) ||
      !llvm::all_of(conditions.getValues<bool>(), [](bool x) { return x; }) ||
      llvm::any_of(numbers.getValues<APInt>(),
                   [](const APInt &x) { return x.isNegative(); }))
    return std::nullopt;
  return Labels{index, static_cast<uint64_t>(kIgnored)};
}

namespace {
/// Replaces valid ? -log_softmax(logits)[row, label] : 0 by `cross_entropy`.
///
/// A label from -classes to -1, which the graph counts from the end, is an
/// error of `cross_entropy`, as it is in PyTorch.
struct RecognizeCrossEntropy : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SelectOp root,
                                PatternRewriter &rewriter) const override {
    Composite composite(root);
    auto negative = composite.take<NegOp>(root.getLhs());
    auto picked = negative ? composite.take<ReshapeOp>(negative.getOperand())
                           : ReshapeOp();
    auto gather = picked ? composite.take<GatherOp>(picked.getX()) : GatherOp();
    auto flat =
        gather ? composite.take<ReshapeOp>(gather.getTable()) : ReshapeOp();
    auto logs =
        flat ? composite.take<LogSoftmaxOp>(flat.getX()) : LogSoftmaxOp();
    if (!logs || getTensor(logs.getX()).getRank() != 2 ||
        getTensor(flat.getResult()).getRank() != 1 ||
        !isSplat(root.getRhs(), 0))
      return failure();
    int64_t rows = getTensor(logs.getX()).getDimSize(0),
            classes = getTensor(logs.getX()).getDimSize(1);
    if (getTensor(root.getResult()).getShape() != ArrayRef(rows) ||
        getTensor(gather.getIndices()).getShape() != ArrayRef<int64_t>{rows, 1})
      return failure();
    Value index = takeColumn(composite, gather.getIndices(), classes);
    if (!index)
      return failure();
    std::optional<Labels> labels =
        getLabels(composite, index, root.getCondition());
    if (!labels)
      labels = getKnownLabels(index, root.getCondition());
    if (!labels || !composite.isClosed())
      return failure();
    ImplicitLocOpBuilder b(composite.getLoc(), rewriter);
    auto loss = CrossEntropyOp::create(b, logs.getX(),
                                       buildReshape(b, labels->value, rows),
                                       labels->ignored, PrecisionAttr());
    rewriter.replaceOp(root, loss.getLosses());
    return success();
  }
};
} // namespace

void mlir::binade::populateLossPatterns(RewritePatternSet &patterns) {
  patterns.add<RecognizeCrossEntropy>(patterns.getContext());
}
