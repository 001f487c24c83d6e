//===- ExpectedScales.cpp - Expected magnitudes of values -----------------===//

#include "binade/Precision/ExpectedScales.h"
#include "UnitScalingRules.h"
#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/ScaledOperand.h"
#include "binade/IR/StoredNumbers.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Magnitudes stay in this range, so that their products are finite.
static constexpr double kMinRms = 0x1p-200, kMaxRms = 0x1p200;

static StringRef intern(MLIRContext *context, const Twine &text) {
  return StringAttr::get(context, text).getValue();
}

/// Returns the magnitude of initial values; none if they are not known.
static std::optional<double> findInitial(Value value, Attribute init,
                                         StringRef directory) {
  if (auto random = dyn_cast_if_present<RandomAttr>(init)) {
    double origin = random.getOrigin().getValueAsDouble();
    double scale = random.getScale().getValueAsDouble();
    if (random.getDistribution() == "normal")
      return std::hypot(origin, scale);
    return std::sqrt(origin * origin + origin * scale + scale * scale / 3.0);
  }
  if (auto numbers = readStored(value, directory))
    return numbers->getRms();
  return std::nullopt;
}

void ExpectedScales::addArguments(func::FuncOp step, const Policy &policy) {
  MLIRContext *context = step.getContext();
  for (BlockArgument argument : step.getArguments()) {
    std::optional<Port> port = getArgument(step, argument.getArgNumber());
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!port || !type || !isa<FloatType>(type.getElementType()))
      continue;
    ExpectedScale &scale = scales[argument];
    if (port->role != Role::Parameter) {
      scale = {1.0, false, "input"};
      scale.source = port->role == Role::Batch ? ++sources : 0;
      continue;
    }
    std::optional<double> initial = findInitial(
        argument, step.getArgAttr(argument.getArgNumber(), kInitAttr),
        policy.directory);
    bool isWeight = type.getRank() >= 2 && type.getNumElements() > 0;
    if (initial && (*initial > 0.0 || !isWeight)) {
      scale = {*initial, false, intern(context, "initial values")};
      continue;
    }
    // Initial values that are unknown, or 0 as in the last layer of a branch:
    // usual ones.
    int64_t largest = isWeight ? *llvm::max_element(type.getShape()) : 1;
    double fan = isWeight ? double(type.getNumElements()) / largest : 1.0;
    scale = {isWeight ? 1.0 / std::sqrt(fan) : 1.0, false,
             intern(context, "fan-in")};
  }
}

/// Returns the first value on which `op` depends, 0 if there is none.
unsigned ExpectedScales::findSource(Operation *op) const {
  unsigned first = 0;
  for (Value operand : op->getOperands())
    if (unsigned source = scales.lookup(operand).source;
        source > 0 && (first == 0 || source < first))
      first = source;
  return first;
}

/// Whether both operands of `op`, a sum, depend on the same first value.
bool ExpectedScales::isResidual(Operation *op) const {
  if (!isa<AddOp>(op) || getPhase(op) != Phase::Forward)
    return false;
  unsigned source = scales.lookup(op->getOperand(0)).source;
  return source > 0 && source == scales.lookup(op->getOperand(1)).source;
}

void ExpectedScales::visit(Operation *op, const Policy &policy) {
  MLIRContext *context = op->getContext();
  auto find = [&](Value value) { return scales.lookup(value); };
  for (OpResult result : op->getResults()) {
    if (!isa<FloatType>(getElementTypeOrSelf(result.getType())) ||
        !isa<RankedTensorType>(result.getType()) || getNumElements(result) == 0)
      continue;
    ExpectedScale scale;
    if (isa<ConstantOp>(op)) {
      if (auto numbers = readStored(result, policy.directory))
        scale = {numbers->getRms(), numbers->least == 0.0, "constant"};
    } else {
      scale = applyUnitScalingRule(result, find);
      // Copies keep the rule of the value.
      bool copies = isa<SaveOp>(op) || isMovement(op);
      if (copies && op->getNumOperands() > 0 &&
          scale.rms == find(op->getOperand(0)).rms)
        scale.rule = find(op->getOperand(0)).rule;
      else
        scale.rule = intern(
            context, isResidual(op) ? StringRef("residual add")
                                    : StringRef(op->getName().stripDialect()));
    }
    scale.source = findSource(op);
    if (scale.source == 0 && !isa<ConstantOp>(op) && !isMovement(op))
      scale.source = ++sources;
    if (scale.rms != 0.0)
      scale.rms = std::clamp(scale.rms, kMinRms, kMaxRms);
    scales[result] = scale;
  }
}

ExpectedScales::ExpectedScales(func::FuncOp step, const Policy &policy,
                               const StepEvidence *evidence) {
  addArguments(step, policy);
  auto measure = [&](Value value) {
    const RecordedRange *range = evidence ? evidence->lookup(value) : nullptr;
    double rms = range ? range->getRms() : 0.0;
    if (rms == 0.0)
      return;
    ExpectedScale &scale = scales[value];
    scale.rms = rms;
    scale.rule = intern(step.getContext(), "recorded");
  };
  for (Value argument : step.getArguments())
    measure(argument);
  for (Operation &op : step.front().without_terminator()) {
    if (getPhase(&op) == Phase::Optimizer)
      continue;
    visit(&op, policy);
    for (Value result : op.getResults())
      measure(result);
  }
}

int64_t ExpectedScales::getExponent(Value value) const {
  double rms = scales.lookup(value).rms;
  if (rms == 0.0)
    return 0;
  auto exponent = static_cast<int64_t>(-std::lround(std::log2(rms)));
  return std::clamp(exponent, -kMaxScaleExponent, kMaxScaleExponent);
}
