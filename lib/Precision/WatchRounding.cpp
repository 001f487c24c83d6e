//===- WatchRounding.cpp - What rounding does to gradients ----------------===//

#include "WatchRounding.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
class Watcher {
public:
  explicit Watcher(func::FuncOp step)
      : step(step), b(step.getLoc(), step.getContext()) {}

  std::optional<RoundedGradients> run() {
    for (auto update :
         llvm::to_vector(step.front().getOps<OptimizerUpdateOp>()))
      watch(update);
    addResults(step, results);
    if (!all.format)
      return std::nullopt;
    return all;
  }

private:
  /// The format that `gradient` is rounded to, or null.
  static FloatType getRounding(Value gradient) {
    auto producer = gradient.getDefiningOp<PrecisionOpInterface>();
    PrecisionAttr decision = producer ? producer.getPrecisionAttr() : nullptr;
    if (!decision ||
        producer.getResultFormat(cast<OpResult>(gradient).getResultNumber()) !=
            FormatRole::Chosen)
      return {};
    FloatType format = decision.getResult();
    return format.getWidth() < 32 ? format : FloatType();
  }

  void watch(OptimizerUpdateOp update) {
    Value exact = update.getGradient();
    FloatType format = getRounding(exact);
    if (!format)
      return;
    // Rounded behind the op instead of by it: both are seen.
    auto producer = exact.getDefiningOp<PrecisionOpInterface>();
    PrecisionAttr old = producer.getPrecisionAttr();
    producer.setPrecisionAttr(PrecisionAttr::get(
        old.getContext(), old.getCompute(), old.getAccumulate(), b.getF32Type(),
        old.getClamp(), old.getRule()));
    b.setInsertionPointAfterValue(exact);
    b.setLoc(exact.getLoc());
    Value rounded = mark(buildCast(b, exact, format), getPhase(producer));
    Value widened =
        mark(buildCast(b, rounded, b.getF32Type()), getPhase(producer));
    exact.replaceAllUsesExcept(widened, rounded.getDefiningOp());
    addCounts(update, exact, rounded);
    if (!all.format ||
        APFloat::semanticsMaxExponent(format.getFloatSemantics()) <
            APFloat::semanticsMaxExponent(all.format.getFloatSemantics()))
      all.format = format;
  }

  void addCounts(OptimizerUpdateOp update, Value exact, Value rounded) {
    b.setInsertionPoint(update);
    auto before = StatisticsOp::create(b, Statistic::Zeros, exact);
    auto after =
        StatisticsOp::create(b, Statistic::Amax | Statistic::Zeros, rounded);
    setPhase(before, Phase::Optimizer);
    setPhase(after, Phase::Optimizer);
    Value zeros = before.getValues().front(), amax = after.getValues().front();
    Value count =
        buildSplat(b, zeros.getType(),
                   cast<RankedTensorType>(exact.getType()).getNumElements());
    Value vanished = subtract(after.getValues().back(), zeros);
    Value nonzero = subtract(count, zeros);
    std::string name = getName(update.getParameter());
    for (auto [statistic, value] :
         {std::pair("vanished", vanished), std::pair("nonzero", nonzero),
          std::pair("amax", amax)})
      results.push_back(
          {Role::Statistic, statistic + (" gradient " + name), value});
    auto join = [&](Value &total, Value value, auto combine) {
      total = total ? mark(combine(total, value), Phase::Optimizer) : value;
    };
    auto add = [&](Value l, Value r) -> Value {
      return AddOp::create(b, l, r);
    };
    auto max = [&](Value l, Value r) -> Value {
      return MaxOp::create(b, l, r);
    };
    join(all.vanished, vanished, add);
    join(all.nonzero, nonzero, add);
    join(all.amax, amax, max);
  }

  Value subtract(Value l, Value r) {
    return mark(SubOp::create(b, l, r), Phase::Optimizer);
  }

  static Value mark(Value value, Phase phase) {
    setPhase(value.getDefiningOp(), phase);
    return value;
  }

  std::string getName(Value parameter) const {
    auto port =
        getArgument(step, cast<BlockArgument>(parameter).getArgNumber());
    return port->name.str();
  }

  func::FuncOp step;
  ImplicitLocOpBuilder b;
  RoundedGradients all;
  std::vector<NewResult> results;
};
} // namespace

std::optional<RoundedGradients> mlir::binade::watchRounding(func::FuncOp step) {
  return Watcher(step).run();
}
