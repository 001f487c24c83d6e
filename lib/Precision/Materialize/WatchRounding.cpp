//===- WatchRounding.cpp - Counts of gradients that round to 0 ------------===//

#include "WatchRounding.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// The magnitudes that rounding to nearest makes neither 0 nor infinite: those
/// between the two, which are excluded.
struct RepresentableRange {
  double above, below;
};

class Watcher {
public:
  Watcher(func::FuncOp step, const LossScaling &scaling)
      : step(step), scaling(scaling), b(step.getLoc(), step.getContext()) {}

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
  /// Returns the format to which `gradient` is rounded, or null.
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

  static RepresentableRange getRepresentableRange(FloatType format);

  void watch(OptimizerUpdateOp update) {
    Value exact = update.getGradient();
    FloatType format = getRounding(exact);
    if (!format)
      return;
    // The op computes in f32 and a cast rounds, so that both values can be
    // counted.
    auto producer = exact.getDefiningOp<PrecisionOpInterface>();
    PrecisionAttr old = producer.getPrecisionAttr();
    producer.setPrecisionAttr(PrecisionAttr::get(
        old.getContext(), old.getCompute(), old.getAccumulate(), b.getF32Type(),
        old.getOperands(), old.getTransform(), old.getAccumulation(),
        old.getClamp(), old.getRule()));
    std::string name = getName(update.getParameter());
    TensorScale tensor;
    if (scaling.perTensor)
      tensor = addScale(name);
    Phase phase = getPhase(producer);
    b.setInsertionPointAfterValue(exact);
    b.setLoc(exact.getLoc());
    Value scaled = multiply(exact, tensor.scale, phase);
    Value rounded = mark(buildCast(b, scaled, format), phase);
    Value widened = mark(buildCast(b, rounded, b.getF32Type()), phase);
    if (tensor.scale)
      widened = multiply(
          widened, mark(ReciprocalOp::create(b, tensor.scale), phase), phase);
    exact.replaceUsesWithIf(widened, [&](OpOperand &use) {
      Operation *reader = use.getOwner();
      return reader != scaled.getDefiningOp() &&
             reader != rounded.getDefiningOp();
    });
    addCounts(update, name, exact, rounded, tensor, format);
    if (!all.format ||
        APFloat::semanticsMaxExponent(format.getFloatSemantics()) <
            APFloat::semanticsMaxExponent(all.format.getFloatSemantics()))
      all.format = format;
  }

  /// The scale of one tensor and its count of good steps; null without such
  /// scales.
  struct TensorScale {
    Value scale, growth;
  };

  TensorScale addScale(StringRef name) {
    auto add = [&](StringRef what, Type element, Attribute value) {
      auto type = RankedTensorType::get({}, element);
      return addArgument(step, Role::Scaler, (what + "/" + name).str(), type,
                         step.getLoc(), DenseElementsAttr::get(type, value));
    };
    return {add("scale", b.getF32Type(), b.getF32FloatAttr(1.0f)),
            add("growth", b.getI64Type(), b.getI64IntegerAttr(0))};
  }

  /// Returns `x` times the scalar `factor`; `x` itself if `factor` is null.
  Value multiply(Value x, Value factor, Phase phase) {
    if (!factor)
      return x;
    auto type = cast<RankedTensorType>(x.getType());
    Value all =
        type.getRank() == 0
            ? factor
            : mark(buildBroadcast(b, factor, {}, type.getShape()), phase);
    return mark(MulOp::create(b, x, all), phase);
  }

  void addCounts(OptimizerUpdateOp update, StringRef name, Value exact,
                 Value rounded, TensorScale tensor, FloatType format) {
    b.setInsertionPoint(update);
    auto before =
        StatisticsOp::create(b, Statistic::Amax | Statistic::Zeros, exact);
    auto after =
        StatisticsOp::create(b, Statistic::Amax | Statistic::Zeros, rounded);
    setPhase(before, Phase::Optimizer);
    setPhase(after, Phase::Optimizer);
    Value zeros = before.getValues().back(), amax = after.getValues().front();
    Value count =
        buildSplat(b, zeros.getType(),
                   cast<RankedTensorType>(exact.getType()).getNumElements());
    Value vanished = subtract(after.getValues().back(), zeros);
    Value nonzero = subtract(count, zeros);
    Value least = buildSmallest(exact);
    RepresentableRange held = getRepresentableRange(format);
    Value raisable = divide(held.below, before.getValues().front());
    Value needed = divide(held.above, least);
    for (auto [statistic, value] :
         {std::pair("vanished", vanished), std::pair("nonzero", nonzero),
          std::pair("amax", amax), std::pair("least", least),
          std::pair("raisable", raisable), std::pair("needed", needed)})
      results.push_back({Role::Statistic,
                         (statistic + Twine(" gradient ") + name).str(),
                         value});
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
    join(all.needed, needed, max);
    join(all.raisable, raisable,
         [&](Value l, Value r) -> Value { return MinOp::create(b, l, r); });
    if (tensor.scale)
      join(all.overflows,
           updateScale(name, tensor, format, before.getValues().front(), amax,
                       vanished, nonzero),
           [&](Value l, Value r) -> Value { return OrOp::create(b, l, r); });
  }

  /// Updates the scale of one tensor. Returns whether the scale made its
  /// gradient infinite.
  Value updateScale(StringRef name, TensorScale tensor, FloatType format,
                    Value exactAmax, Value amax, Value vanished,
                    Value nonzero) {
    // A count that no run reaches, because only gradients that round to 0 let
    // these scales grow.
    constexpr int64_t kNever = int64_t(1) << 62;
    constexpr double kShare = 0.01;
    Value infinity = buildSplat(b, amax.getType(), INFINITY);
    auto compare = [&](Value x, Comparison comparison) {
      return mark(CompareOp::create(b, x, infinity, comparison),
                  Phase::Optimizer);
    };
    Value overflows = mark(AndOp::create(b, compare(amax, Comparison::Equal),
                                         compare(exactAmax, Comparison::Less)),
                           Phase::Optimizer);
    Type scale = tensor.scale.getType(), count = tensor.growth.getType();
    auto lowered = UpdateScaleOp::create(
        b, scale, count, Type(), tensor.scale, tensor.growth, overflows,
        Value(), b.getF64FloatAttr(scaling.growth),
        b.getF64FloatAttr(scaling.backoff), b.getI64IntegerAttr(kNever),
        b.getI64IntegerAttr(0), FloatAttr(), FloatAttr(),
        b.getI64IntegerAttr(1), UnitAttr());
    auto raised = RaiseScaleOp::create(
        b, TypeRange{scale, count, overflows.getType()}, lowered.getNewScale(),
        lowered.getNewGrowthCount(), vanished, nonzero, amax,
        b.getF64FloatAttr(scaling.growth), b.getI64IntegerAttr(scaling.check),
        b.getF64FloatAttr(scaling.underflow.value_or(kShare)),
        b.getF64FloatAttr(getGrowthLimit(format)));
    setPhase(lowered, Phase::Optimizer);
    setPhase(raised, Phase::Optimizer);
    results.push_back(
        {Role::Scaler, ("scale/" + name).str(), raised.getNewScale()});
    results.push_back(
        {Role::Scaler, ("growth/" + name).str(), raised.getNewGrowthCount()});
    return overflows;
  }

  /// Returns the smallest nonzero magnitude of `x`; infinity if all elements
  /// are 0.
  Value buildSmallest(Value x) {
    auto done = [&](Value value) { return mark(value, Phase::Optimizer); };
    auto type = cast<RankedTensorType>(x.getType());
    Value zero = buildSplat(b, type, 0.0);
    Value isZero = done(CompareOp::create(b, x, zero, Comparison::Equal));
    Value lowest = buildSplat(b, type, -INFINITY);
    Value negated = done(NegOp::create(b, done(AbsOp::create(b, x))));
    Value found = done(SelectOp::create(b, isZero, lowest, negated));
    auto axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    if (!axes.empty())
      found = done(ReduceMaxOp::create(b, found, axes));
    return done(NegOp::create(b, found));
  }

  Value divide(double dividend, Value by) {
    Value number = buildSplat(b, by.getType(), dividend);
    return mark(DivOp::create(b, number, by), Phase::Optimizer);
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
  const LossScaling &scaling;
  ImplicitLocOpBuilder b;
  RoundedGradients all;
  std::vector<NewResult> results;
};
} // namespace

RepresentableRange Watcher::getRepresentableRange(FloatType format) {
  const llvm::fltSemantics &semantics = format.getFloatSemantics();
  double least = APFloat::getSmallest(semantics).convertToDouble(),
         most = APFloat::getLargest(semantics).convertToDouble();
  int ulp = std::ilogb(most) + 1 -
            static_cast<int>(APFloat::semanticsPrecision(semantics));
  return {least / 2, most + std::ldexp(0.5, ulp)};
}

double mlir::binade::getGrowthLimit(FloatType format) {
  // One growth of the scale must not overflow.
  constexpr double kHeadroom = 4.0;
  return APFloat::getLargest(format.getFloatSemantics()).convertToDouble() /
         kHeadroom;
}

std::optional<RoundedGradients>
mlir::binade::watchRounding(func::FuncOp step, const LossScaling &scaling) {
  return Watcher(step, scaling).run();
}
