//===- ScaleLoss.cpp - Loss scaling ---------------------------------------===//

#include "ScaleLoss.h"
#include "WatchRounding.h"
#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Metrics.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr StringLiteral kScale = "scale", kStaticScale = "loss_scale";

namespace {
class LossScaler {
public:
  LossScaler(func::FuncOp step, const LossScaling &scaling)
      : step(step), scaling(scaling), b(step.getLoc(), step.getContext()) {}

  bool isScaled();
  /// Whether the caller scales the loss and passes the scale to the step.
  bool isScaledByCaller();
  bool hasSeed();
  /// Multiplies by a constant, which is also a metric of the step.
  void scaleStatically(double factor);
  /// Multiplies by a state of the program, which `foundInf` lowers.
  LogicalResult scaleDynamically(Value foundInf);

private:
  Value addState(StringRef name, Type element, double init);
  void multiply(Value scale);
  RaiseScaleOp raise(UpdateScaleOp update, const RoundedGradients &rounded);

  func::FuncOp step;
  const LossScaling &scaling;
  ImplicitLocOpBuilder b;
};
} // namespace

bool LossScaler::isScaled() {
  return findArgument(step, Role::Scaler, kScale) ||
         findResult(step, Role::Metric, kStaticScale);
}

bool LossScaler::isScaledByCaller() {
  return findArgument(step, Role::Scaler, kScale) &&
         !findResult(step, Role::Scaler, kScale);
}

/// Whether the loss scale can enter the backward pass. Constant gradients need
/// no scale.
bool LossScaler::hasSeed() {
  // Programs that update nothing need no seed.
  return !step.getOps<GradientSeedOp>().empty() ||
         step.getOps<OptimizerUpdateOp>().empty() ||
         llvm::none_of(step.getOps(), [](Operation &op) {
           return getPhase(&op) == Phase::Backward;
         });
}

void LossScaler::multiply(Value scale) {
  step.walk([&](GradientSeedOp op) { op.getScaleMutable().assign(scale); });
  step.walk([&](UnscaleFactorOp op) { op.getScaleMutable().assign(scale); });
}

void LossScaler::scaleStatically(double factor) {
  b.setInsertionPointToStart(&step.front());
  Value scale =
      buildSplat(b, RankedTensorType::get({}, b.getF32Type()), factor);
  multiply(scale);
  addResult(step, Role::Metric, kStaticScale, scale);
}

Value LossScaler::addState(StringRef name, Type element, double init) {
  auto type = RankedTensorType::get({}, element);
  Attribute value = isa<FloatType>(element)
                        ? Attribute(FloatAttr::get(element, init))
                        : IntegerAttr::get(element, static_cast<int64_t>(init));
  return addArgument(step, Role::Scaler, name, type, step.getLoc(),
                     DenseElementsAttr::get(type, value));
}

/// Lets the scale grow if too many gradients round to 0.
RaiseScaleOp LossScaler::raise(UpdateScaleOp update,
                               const RoundedGradients &rounded) {
  Value scale = update.getNewScale(), count = update.getNewGrowthCount();
  auto op = RaiseScaleOp::create(
      b,
      TypeRange{scale.getType(), count.getType(),
                update.getFoundInf().getType()},
      scale, count, rounded.vanished, rounded.nonzero, rounded.amax,
      b.getF64FloatAttr(scaling.growth), b.getI64IntegerAttr(scaling.check),
      b.getF64FloatAttr(*scaling.underflow),
      b.getF64FloatAttr(getGrowthLimit(rounded.format)));
  setPhase(op, Phase::Optimizer);
  // Rounding is monotone, so that the largest f32 gradient is also the largest
  // rounded one.
  Value isProven = CompareOp::create(b, rounded.needed, rounded.raisable,
                                     Comparison::Greater);
  setPhase(isProven.getDefiningOp(), Phase::Optimizer);
  Value infeasible = AndOp::create(b, op.getInfeasible(), isProven);
  setPhase(infeasible.getDefiningOp(), Phase::Optimizer);
  addResult(step, Role::Metric, "no_feasible_scale", infeasible);
  return op;
}

LogicalResult LossScaler::scaleDynamically(Value foundInf) {
  std::optional<RoundedGradients> rounded;
  if (scaling.underflow || scaling.perTensor) {
    rounded = watchRounding(step, scaling);
    if (!rounded)
      return step.emitError("the policy watches the rounding of gradients, but "
                            "all gradients are ")
             << b.getF32Type();
  }
  Value scale = addState(kScale, b.getF32Type(), scaling.init);
  Value growth = addState("growth", b.getI64Type(), -scaling.delay);
  Value left;
  if (scaling.hysteresis > 1)
    left = addState("hysteresis", b.getI64Type(), scaling.hysteresis);
  multiply(scale);

  auto number = [&](std::optional<double> value) {
    return value ? b.getF64FloatAttr(*value) : FloatAttr();
  };
  b.setInsertionPoint(step.front().getTerminator());
  // An overflow that is due to the scale of one tensor does not lower the loss
  // scale.
  if (rounded && rounded->overflows) {
    Value others = NotOp::create(b, rounded->overflows);
    setPhase(others.getDefiningOp(), Phase::Optimizer);
    foundInf = AndOp::create(b, foundInf, others);
    setPhase(foundInf.getDefiningOp(), Phase::Optimizer);
  }
  auto update = UpdateScaleOp::create(
      b, scale.getType(), growth.getType(), left ? left.getType() : Type(),
      scale, growth, foundInf, left, number(scaling.growth),
      number(scaling.backoff), b.getI64IntegerAttr(scaling.interval),
      b.getI64IntegerAttr(scaling.delay), number(scaling.min),
      number(scaling.max), b.getI64IntegerAttr(scaling.hysteresis),
      scaling.consecutiveHysteresis ? b.getUnitAttr() : UnitAttr());
  setPhase(update, Phase::Optimizer);
  Value newScale = update.getNewScale(), newGrowth = update.getNewGrowthCount();
  if (rounded && !scaling.perTensor) {
    RaiseScaleOp raised = raise(update, *rounded);
    newScale = raised.getNewScale();
    newGrowth = raised.getNewGrowthCount();
  }
  addResult(step, Role::Scaler, kScale, newScale);
  addResult(step, Role::Scaler, "growth", newGrowth);
  if (left)
    addResult(step, Role::Scaler, "hysteresis", update.getNewHysteresisLeft());
  return success();
}

LogicalResult mlir::binade::scaleLoss(func::FuncOp step,
                                      const LossScaling &scaling) {
  LossScaler scaler(step, scaling);
  if (scaler.isScaledByCaller())
    return step.emitError("the policy scales the loss, but the caller of "
                          "the step may scale its gradients (input 'scale'); "
                          "use a policy without 'loss_scale'; in PyTorch, "
                          "torch.amp.GradScaler scales the loss");
  if (scaler.isScaled())
    return success();
  if (!scaler.hasSeed())
    return step.emitError(
        "the policy scales the loss, but the backward pass of the imported "
        "graph has no value that is linear in the loss, which a scale could "
        "multiply; use a policy without loss scaling");
  if (scaling.fixed) {
    scaler.scaleStatically(*scaling.fixed);
    return success();
  }
  std::optional<Port> found = findResult(step, Role::Metric, kFoundInf);
  if (!found)
    found = findResult(step, Role::Metric, kAnsweredInf);
  if (!found)
    return step.emitError("the policy adapts its loss scale when gradients "
                          "overflow, but on-nonfinite is 'continue', which "
                          "applies such gradients; use 'skip', or a policy "
                          "with a static scale or none; --release-gradients "
                          "implies 'continue' and excludes 'skip'");
  return scaler.scaleDynamically(getResultValue(step, found->index));
}
