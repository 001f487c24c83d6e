//===- UnitScalingRules.cpp - Rule table of unit scaling ------------------===//
//
// The factors are those of unit scaling (Blake, Orr, Luschi, arXiv 2303.11257;
// Blake et al., u-muP, arXiv 2407.17465). The library multiplies results by
// factors that give them unit variance; here the magnitudes of results follow
// from the same factors, and from operands of any magnitude.
//
//===----------------------------------------------------------------------===//

#include "UnitScalingRules.h"
#include "binade/IR/Build.h"
#include "binade/IR/Movement.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace mlir::binade;

/// Interpolates between two factors on a logarithmic scale.
static double interpolate(double alpha, double lower, double upper) {
  return std::exp(alpha * std::log(upper) + (1.0 - alpha) * std::log(lower));
}

/// Returns 1 / (1 + c / m^2), which tends to 0 for small m.
static double weigh(double c, double m) { return m * m / (m * m + c); }

/// The factor by which GELU and SiLU change the magnitude of inputs and of
/// gradients, for inputs of magnitude `m`: 1/2 for small ones, and that of
/// ReLU's deviation for large ones.
static double getGateFactor(double m) {
  double relu = std::sqrt(2.0 / (1.0 - 1.0 / std::numbers::pi));
  return 1.0 / interpolate(weigh(0.25, m), 2.0, relu);
}

/// The magnitude of probabilities among `n`, for logits of magnitude `m`.
static double getSoftmaxFactor(double m, double n) {
  return 1.0 / interpolate(weigh(4.0, m), n, std::sqrt(n));
}

/// The factor by which attention averages values, for logits of magnitude `m`.
static double getAttentionFactor(double m, double length, bool isCausal) {
  double mean = std::sqrt((isCausal ? std::log(length) : 1.0) / length);
  return length > 1 ? interpolate(weigh(4.0, m), mean, 1.0) : 1.0;
}

static double getCount(Value value) {
  return static_cast<double>(getNumElements(value));
}

static double getLength(Value value, int64_t fromEnd) {
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  return static_cast<double>(shape[shape.size() - fromEnd]);
}

namespace {
class RuleTable {
public:
  RuleTable(OpResult result, function_ref<ExpectedScale(Value)> find)
      : op(result.getOwner()), result(result), find(find) {}

  ExpectedScale apply();

private:
  double rms(unsigned operand) const {
    return find(op->getOperand(operand)).rms;
  }
  /// The magnitude of a factor, which may be initialized to 0: that of the
  /// scale of a norm at the end of a branch.
  double factor(unsigned operand) const {
    double found = rms(operand);
    return found == 0.0 ? 1.0 : found;
  }
  bool isPositive(unsigned operand) const {
    return find(op->getOperand(operand)).isPositive;
  }
  ExpectedScale largestOperand() const {
    ExpectedScale largest;
    for (Value operand : op->getOperands())
      if (ExpectedScale found = find(operand); found.rms > largest.rms)
        largest = found;
    return {largest.rms, largest.isPositive};
  }
  ExpectedScale product() const;
  ExpectedScale sum() const;
  ExpectedScale norm() const;
  ExpectedScale attention(AttentionOp attention) const;
  ExpectedScale attentionGrad(AttentionGradOp attention) const;

  Operation *op;
  OpResult result;
  function_ref<ExpectedScale(Value)> find;
};
} // namespace

/// Matmuls and convolutions: linear, fan_in^-1/2; its gradients, fan_out^-1/2
/// and batch^-1/2; matmul, inner^-1/2. In each case this is the number of
/// products in a sum.
ExpectedScale RuleTable::product() const {
  std::optional<int64_t> macs = cast<PrecisionOpInterface>(op).countMacs();
  double length = macs ? static_cast<double>(*macs) / getCount(result) : 1.0;
  double found = rms(0) * rms(1) * std::sqrt(length);
  return {op->getNumOperands() > 2 ? std::hypot(found, rms(2)) : found};
}

ExpectedScale RuleTable::sum() const {
  double terms = getCount(op->getOperand(0)) / std::max(1.0, getCount(result));
  double grown = isPositive(0) ? terms : std::sqrt(terms);
  bool isMean = isa<ReduceMeanOp>(op);
  return {rms(0) * (isMean ? grown / std::max(1.0, terms) : grown),
          isPositive(0)};
}

/// Norms of rows and of channels: operands are x, scale and bias.
ExpectedScale RuleTable::norm() const {
  if (result.getResultNumber() > 0) // Mean, reciprocal of the deviation.
    return {1.0, true};
  bool hasBias = op->getNumOperands() > 2;
  return {hasBias ? std::hypot(factor(1), rms(2)) : factor(1)};
}

ExpectedScale RuleTable::attention(AttentionOp attention) const {
  double depth = getLength(attention.getQuery(), 1);
  double length = getLength(attention.getKey(), 2);
  double scale = attention.getScale().convertToDouble();
  double logits = rms(0) * rms(1) * std::sqrt(depth) * std::abs(scale);
  if (result.getResultNumber() > 0)
    return {std::log(std::max(2.0, length)), true};
  return {rms(2) * getAttentionFactor(logits, length, attention.getCausal())};
}

/// The gradients have the factor of the result, as in the library, relative to
/// operands of magnitude 1. Those of query and key are also proportional to the
/// logits.
ExpectedScale RuleTable::attentionGrad(AttentionGradOp attention) const {
  double depth = getLength(attention.getQuery(), 1);
  double length = getLength(attention.getKey(), 2);
  double scale = attention.getScale().convertToDouble();
  double query = rms(1), key = rms(2), value = rms(3);
  double logits = query * key * std::sqrt(depth) * std::abs(scale);
  double dy =
      rms(0) * getAttentionFactor(logits, length, attention.getCausal());
  auto ofLogits = [&](double operand) {
    return operand > 0 ? dy * value * logits / operand : dy * value;
  };
  switch (result.getResultNumber()) {
  case 0:
    return {ofLogits(query)};
  case 1:
    return {ofLogits(key)};
  case 2:
    return {dy};
  default: // Of biases, which are added to the logits.
    return {dy * value};
  }
}

ExpectedScale RuleTable::apply() {
  using Scale = ExpectedScale;
  double terms = op->getNumOperands() > 0 ? getCount(op->getOperand(0)) /
                                                std::max(1.0, getCount(result))
                                          : 1.0;
  return llvm::TypeSwitch<Operation *, Scale>(op)
      .Case<MatmulOp, ConvOp, ConvInputGradOp, ConvWeightGradOp>(
          [&](auto) { return product(); })
      .Case<AddOp, SubOp>([&](auto) {
        return Scale{std::hypot(rms(0), rms(1)),
                     isPositive(0) && isPositive(1)};
      })
      .Case<MulOp>([&](auto) {
        bool isSquare = op->getOperand(0) == op->getOperand(1);
        return Scale{rms(0) * rms(1),
                     isSquare || (isPositive(0) && isPositive(1))};
      })
      .Case<DivOp>([&](auto) {
        return Scale{rms(0) / factor(1), isPositive(0) && isPositive(1)};
      })
      .Case<ReciprocalOp>(
          [&](auto) { return Scale{1.0 / factor(0), isPositive(0)}; })
      .Case<SqrtOp>([&](auto) { return Scale{std::sqrt(rms(0)), true}; })
      .Case<AbsOp>([&](auto) { return Scale{rms(0), true}; })
      .Case<ExpOp, SigmoidOp, SoftplusOp>(
          [&](auto) { return Scale{isa<SigmoidOp>(op) ? 0.5 : 1.0, true}; })
      .Case<TanhOp, ErfOp>([&](auto) { return Scale{std::min(1.0, rms(0))}; })
      .Case<ReluOp, ReluGradOp>(
          [&](auto) { return Scale{rms(0) * std::sqrt(0.5)}; })
      .Case<GeluOp, SiluOp>(
          [&](auto) { return Scale{rms(0) * getGateFactor(rms(0))}; })
      .Case<GeluGradOp, SiluGradOp>(
          [&](auto) { return Scale{rms(0) * getGateFactor(rms(1))}; })
      .Case<SoftmaxOp>([&](auto) {
        return Scale{getSoftmaxFactor(rms(0), getLength(result, 1)), true};
      })
      .Case<SoftmaxGradOp>([&](auto) { return Scale{rms(0) * rms(1)}; })
      .Case<AttentionOp>([&](auto found) { return attention(found); })
      .Case<AttentionGradOp>([&](auto found) { return attentionGrad(found); })
      .Case<LayerNormOp, RmsNormOp, BatchNormOp>([&](auto) { return norm(); })
      .Case<LayerNormGradOp, RmsNormGradOp, BatchNormGradOp>(
          [&](auto) { return Scale{rms(0) * factor(2) / factor(1)}; })
      .Case<LayerNormParamGradOp, RmsNormScaleGradOp, BatchNormParamGradOp>(
          [&](auto) { return Scale{rms(0) * std::sqrt(terms)}; })
      .Case<GatherGradOp>([&](auto) { // Embedding, (vocab / batch)^1/2.
        return Scale{rms(0) * std::sqrt(terms)};
      })
      .Case<CrossEntropyOp>([&](auto) { return Scale{1.0, true}; })
      .Case<CrossEntropyGradOp>([&](auto) {
        double vocab = getLength(result, 1);
        return Scale{rms(0) * std::sqrt(std::max(1.0, vocab - 1.0)) / vocab};
      })
      .Case<LabelWeightOp>([&](auto) { // The operand are the labels.
        return Scale{1.0 / std::max(1.0, terms), true};
      })
      .Case<GradientSeedOp>([&](auto) { return Scale{1.0, true}; })
      .Case<ReduceSumOp, ReduceMeanOp>([&](auto) { return sum(); })
      .Case<GatherOp>([&](auto) { return Scale{rms(0), isPositive(0)}; })
      .Default([&](Operation *) { return largestOperand(); });
}

ExpectedScale
mlir::binade::applyUnitScalingRule(OpResult result,
                                   function_ref<ExpectedScale(Value)> find) {
  return RuleTable(result, find).apply();
}
