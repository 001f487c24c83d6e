//===- AddEvaluationMetrics.cpp - Add metrics to `evaluate` ---------------===//

#include "binade/Container/EvaluationMetrics.h"
#include "binade/Container/Printable.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/Labels.h"
#include "binade/Programs/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_ADDEVALUATIONMETRICSPASS
#include "binade/Programs/Passes.h.inc"

/// The request for only the sums that every metric needs.
static constexpr StringLiteral kLabels = "labels";

namespace {
/// Builds sums over a batch, from which metrics of its cross-entropy follow.
class Sums {
public:
  explicit Sums(CrossEntropyOp loss)
      : loss(loss), b(loss.getLoc(), loss.getContext()) {
    b.setInsertionPoint(loss->getBlock()->getTerminator());
    counts = buildLabelCounts(b, loss.getLabels(), loss.getIgnoreIndex());
    labels = sum(buildCast(b, counts, b.getF32Type()));
    entropy = sum(loss.getLosses());
  }

  int64_t getNumClasses() {
    return cast<RankedTensorType>(loss.getLogits().getType()).getDimSize(1);
  }
  Value getLabels() const { return labels; }
  Value getEntropy() const { return entropy; }
  Value buildPerplexity() {
    return ExpOp::create(b, DivOp::create(b, entropy, labels));
  }

  /// Counts the labels that are among the `top` classes with the largest
  /// logits.
  Value countTop(int64_t top) {
    if (!ranks)
      ranks = buildRanks();
    Value isTop = CompareOp::create(
        b, ranks, buildSplat(b, ranks.getType(), static_cast<double>(top)),
        Comparison::Less);
    return sum(buildCast(b, AndOp::create(b, isTop, counts), b.getF32Type()));
  }

private:
  Value sum(Value x) { return ReduceSumOp::create(b, x, ArrayRef<int64_t>{0}); }

  /// Returns for each row how many classes come before its label if classes are
  /// sorted by descending logits, and those with equal logits by number. A NaN
  /// comes before any label.
  Value buildRanks() {
    Value x = buildCast(b, loss.getLogits(), b.getF32Type());
    auto type = cast<RankedTensorType>(x.getType());
    auto spread = [&](Value perRow) {
      return buildBroadcast(b, perRow, 0, type.getShape());
    };
    Value labels = spread(loss.getLabels());
    Value classes = IotaOp::create(b, labels.getType(), b.getI64IntegerAttr(1));
    Value isLabel = CompareOp::create(b, classes, labels, Comparison::Equal);
    Value ofLabel = spread(ReduceSumOp::create(
        b, SelectOp::create(b, isLabel, x, buildSplat(b, type, 0.0)),
        ArrayRef<int64_t>{1}));
    Value isAtMost = CompareOp::create(b, x, ofLabel, Comparison::LessEqual);
    Value isEqual = CompareOp::create(b, x, ofLabel, Comparison::Equal);
    Value isEarlier = CompareOp::create(b, classes, labels, Comparison::Less);
    Value isBefore = OrOp::create(b, NotOp::create(b, isAtMost),
                                  AndOp::create(b, isEqual, isEarlier));
    return ReduceSumOp::create(b, buildCast(b, isBefore, b.getF32Type()),
                               ArrayRef<int64_t>{1});
  }

  CrossEntropyOp loss;
  ImplicitLocOpBuilder b;
  Value counts;          ///< Whether each label is not ignored.
  Value labels, entropy; ///< Sums over these labels.
  Value ranks;           ///< As of `buildRanks`; null until it is needed.
};

struct AddEvaluationMetricsPass
    : impl::AddEvaluationMetricsPassBase<AddEvaluationMetricsPass> {
  using Base::Base;

  void runOnOperation() override {
    if (!metrics.empty() && failed(add()))
      signalPassFailure();
  }

private:
  LogicalResult add();
  /// Returns the only cross-entropy of `function`; null, with an error unless
  /// only the number of labels is requested, if there is another number of
  /// them.
  FailureOr<CrossEntropyOp> findLoss(func::FuncOp function);
};
} // namespace

FailureOr<CrossEntropyOp>
AddEvaluationMetricsPass::findLoss(func::FuncOp function) {
  SmallVector<CrossEntropyOp> losses;
  if (function)
    llvm::append_range(losses, function.getOps<CrossEntropyOp>());
  if (losses.size() == 1)
    return losses.front();
  auto isName = [](StringRef metric) { return metric != kLabels; };
  auto named = llvm::find_if(metrics, isName);
  if (named == metrics.end())
    return CrossEntropyOp();
  InFlightDiagnostic error = getOperation().emitError("metric '")
                             << *named
                             << "' is computed from the logits and labels of "
                                "the loss, which has to contain one "
                                "cross-entropy, but ";
  if (!function)
    return error << "the model has no loss";
  return losses.empty()
             ? error << "the loss of this model contains none"
             : error << "the loss of this model contains " << losses.size();
}

LogicalResult AddEvaluationMetricsPass::add() {
  for (const std::string &metric : metrics)
    if (metric != kLabels && !::binade::isEvaluationMetric(metric))
      return getOperation().emitError("expected metric 'accuracy', 'topK', "
                                      "such as 'top5', or 'perplexity', got ")
             << ::binade::quote(metric);
  auto function = getOperation().lookupSymbol<func::FuncOp>(kEvaluationName);
  FailureOr<CrossEntropyOp> loss = findLoss(function);
  if (failed(loss) || !*loss)
    return failure(failed(loss));
  Sums sums(*loss);
  SmallVector<NewResult> results;
  auto addResult = [&](std::string name, function_ref<Value()> build) {
    auto isSame = [&](const NewResult &other) { return other.name == name; };
    if (!findResult(function, Role::Metric, name) &&
        llvm::none_of(results, isSame))
      results.push_back({Role::Metric, std::move(name), build()});
  };
  addResult(std::string(::binade::kEvalLabels),
            [&] { return sums.getLabels(); });
  addResult(std::string(::binade::kEvalEntropy),
            [&] { return sums.getEntropy(); });
  for (const std::string &metric : metrics) {
    std::optional<int64_t> top = ::binade::findTop(metric);
    if (top && *top > sums.getNumClasses())
      return getOperation().emitError("metric '")
             << metric << "' needs at least " << *top
             << " classes, but the logits of the loss have "
             << sums.getNumClasses();
    if (top)
      addResult((StringRef(::binade::kEvalTop) + Twine(*top)).str(),
                [&] { return sums.countTop(*top); });
    else if (metric == ::binade::kPerplexity)
      addResult(std::string(::binade::kEvalPerplexity),
                [&] { return sums.buildPerplexity(); });
  }
  addResults(function, results);
  return success();
}
} // namespace mlir::binade
