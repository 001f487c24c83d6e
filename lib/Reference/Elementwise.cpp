//===- Elementwise.cpp - Elementwise ops ----------------------------------===//

#include "Families.h"
#include "Formula.h"
#include "Storage.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <functional>

using namespace mlir;
using namespace mlir::binade;

static double sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }

namespace {
/// The normal distribution function that gelu multiplies by, its slope, and the
/// sums of magnitudes in both.
struct NormalFit {
  double cdf, slope, cdfMagnitude, slopeMagnitude;
};
} // namespace

/// Uses functions without cancellation in the left tail. An implementation may
/// cancel there; the bound allows for terms of magnitude 1.
static NormalFit fitNormal(double x, Approximation approximation) {
  if (approximation == Approximation::None) {
    double cdf = 0.5 * std::erfc(-x * M_SQRT1_2);
    double density = std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI);
    // The exponent is rounded before exponentiation.
    return {cdf, density, std::fmax(cdf, 1.0 - cdf), density * (1.0 + x * x)};
  }
  double root = std::sqrt(2.0 / M_PI);
  double argument = root * (x + 0.044715 * x * x * x);
  double cdf = 1.0 / (1.0 + std::exp(-2.0 * argument));
  double rest = 1.0 / (1.0 + std::exp(2.0 * argument));
  double polynomial = root * (1.0 + 3.0 * 0.044715 * x * x);
  // The factor by which a relative error of the argument changes the tanh.
  double moved = 4.0 * std::fabs(argument) * cdf * rest;
  return {cdf, 2.0 * cdf * rest * polynomial, std::fmax(cdf, rest) + moved,
          polynomial * (1.0 + moved)};
}

static Estimate gelu(GeluOp op, double x) {
  NormalFit fit = fitNormal(x, op.getApproximate());
  return {x * fit.cdf, std::fabs(x) * fit.cdfMagnitude};
}

static Estimate geluGrad(GeluGradOp op, double dy, double x) {
  NormalFit fit = fitNormal(x, op.getApproximate());
  return {dy * (fit.cdf + x * fit.slope),
          std::fabs(dy) *
              (fit.cdfMagnitude + std::fabs(x) * fit.slopeMagnitude)};
}

static double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

static Estimate siluGrad(double dy, double x) {
  double s = sigmoid(x), bend = x * sigmoid(-x);
  return {dy * s * (1.0 + bend), std::fabs(dy) * s * (1.0 + std::fabs(bend))};
}

/// Bounds an implementation as exp(y log x), whose exponent is rounded.
static Estimate power(double x, double y) {
  double value = std::pow(x, y);
  double exponent = y * std::log(std::fabs(x));
  if (!std::isfinite(exponent))
    return value;
  return {value, std::fabs(value) * (1.0 + std::fabs(exponent))};
}

/// Whether the operands of `op`, all of one type, are unsigned. It matters only
/// for 64 bits.
static bool isUnsigned(Operation *op) {
  return mlir::binade::isUnsigned(op->getOperand(0).getType());
}

/// Whether integer x is less than y.
static bool isBelow(Operation *op, int64_t x, int64_t y) {
  return isUnsigned(op) ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y)
                        : x < y;
}

/// Rounds toward 0; a division by 0 gives 0, and overflow wraps around.
static int64_t divide(DivOp op, int64_t x, int64_t y) {
  if (y == 0)
    return 0;
  if (isUnsigned(op))
    return static_cast<uint64_t>(x) / static_cast<uint64_t>(y);
  return y == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x / y;
}

static bool compare(Comparison comparison, auto x, auto y) {
  switch (comparison) {
  case Comparison::Equal:
    return x == y;
  case Comparison::Less:
    return x < y;
  case Comparison::LessEqual:
    return x <= y;
  case Comparison::Greater:
    return x > y;
  case Comparison::GreaterEqual:
    return x >= y;
  }
  llvm_unreachable("all comparisons are handled");
}

static void evaluateCompare(CompareOp op, Evaluation &e) {
  const Tensor &lhs = *e.getOperands()[0], &rhs = *e.getOperands()[1];
  MutableArrayRef<int64_t> y = e.result().getIntegers();
  Comparison comparison = op.getComparison();
  // Maps two integers to a number that compares to 0 as they do.
  auto order = [&](int64_t x, int64_t y) {
    return isBelow(op, x, y) ? -1 : isBelow(op, y, x) ? 1 : 0;
  };
  for (auto [i, holds] : llvm::enumerate(y))
    holds = lhs.isFloat()
                ? compare(comparison, lhs[i], rhs[i])
                : compare(comparison,
                          order(lhs.getIntegers()[i], rhs.getIntegers()[i]), 0);
}

static void evaluateJoinHalves(JoinHalvesOp op, Evaluation &e) {
  Master master = getElementTypeOrSelf(op.getLow()).isInteger(8)
                      ? Master::Split8Bit
                  : op.getRounded() ? Master::SplitRound
                                    : Master::SplitTrunc;
  StoredParameter storage(master, BFloat16Type::get(op.getContext()));
  const Tensor &high = e[op.getHigh()], &low = e[op.getLow()];
  for (int64_t i = 0, count = high.getNumElements(); i < count; ++i)
    e.result(0)[i] = storage.decode(high, &low, i);
}

static void evaluateSelect(SelectOp op, Evaluation &e) {
  ArrayRef<int64_t> condition = e[op.getCondition()].getIntegers();
  Tensor &y = e.result();
  for (auto [i, holds] : llvm::enumerate(condition)) {
    const Tensor &source = *e.getOperands()[holds ? 1 : 2];
    if (y.isFloat())
      y[i] = source[i];
    else
      y.getIntegers()[i] = source.getIntegers()[i];
  }
}

void mlir::binade::addElementwise(Reference &reference) {
  constexpr Accuracy exact = Accuracy::Exact, rounded = Accuracy::Rounded;
  using Word = uint64_t; // Wraps around.

  // Unary.
  reference.add<NegOp>([](double x) { return -x; }, exact);
  reference.add<AbsOp>([](double x) { return std::fabs(x); }, exact);
  reference.add<SignOp>(sign, exact);
  reference.add<ExpOp>([](double x) { return std::exp(x); });
  reference.add<LogOp>([](double x) { return std::log(x); });
  reference.add<Expm1Op>([](double x) { return std::expm1(x); });
  reference.add<Log1pOp>([](double x) { return std::log1p(x); });
  reference.add<SinOp>([](double x) { return std::sin(x); });
  reference.add<CosOp>([](double x) { return std::cos(x); });
  reference.add<AtanOp>([](double x) { return std::atan(x); });
  reference.add<FloorOp>([](double x) { return std::floor(x); }, exact);
  reference.add<CeilOp>([](double x) { return std::ceil(x); }, exact);
  reference.add<RoundOp>([](double x) { return std::nearbyint(x); }, exact);
  reference.add<SoftplusOp>([](double x) {
    return std::isnan(x)
               ? x
               : std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
  });
  reference.add<SqrtOp>([](double x) { return std::sqrt(x); }, rounded);
  reference.add<ReciprocalOp>([](double x) { return 1.0 / x; }, rounded);
  reference.add<TanhOp>([](double x) { return std::tanh(x); });
  reference.add<ErfOp>([](double x) { return std::erf(x); });
  reference.add<SigmoidOp>(sigmoid);
  reference.add<ReluOp>([](double x) { return x < 0.0 ? 0.0 : x; }, exact);
  reference.add<GeluOp>(gelu);
  reference.add<SiluOp>([](double x) { return x / (1.0 + std::exp(-x)); });

  // Gradients of unary ops.
  reference.add<ReluGradOp>(
      [](double dy, double y) { return y <= 0.0 ? 0.0 : dy; }, exact);
  reference.add<GeluGradOp>(geluGrad);
  reference.add<SiluGradOp>(siluGrad);

  // Binary.
  reference.add<AddOp>(std::plus<double>(), rounded, std::plus<Word>());
  reference.add<SubOp>(std::minus<double>(), rounded, std::minus<Word>());
  reference.add<MulOp>(std::multiplies<double>(), rounded,
                       std::multiplies<Word>());
  reference.add<DivOp>(std::divides<double>(), rounded, divide);
  reference.add<PowOp>(power);
  reference.add<MaxOp>(maximum, exact, [](MaxOp op, int64_t x, int64_t y) {
    return isBelow(op, x, y) ? y : x;
  });
  reference.add<MinOp>(minimum, exact, [](MinOp op, int64_t x, int64_t y) {
    return isBelow(op, y, x) ? y : x;
  });

  // Comparison, logic, selection.
  reference.add<CompareOp>(evaluateCompare);
  reference.add<AndOp>(nullptr, exact, std::bit_and<Word>());
  reference.add<OrOp>(nullptr, exact, std::bit_or<Word>());
  reference.add<XorOp>(nullptr, exact, std::bit_xor<Word>());
  reference.add<NotOp>(nullptr, exact, [](int64_t x) { return x ^ 1; });
  reference.add<SelectOp>(evaluateSelect);
  reference.add<JoinHalvesOp>(evaluateJoinHalves);
}
