//===- ProbeRule.cpp - Numerical checks of imported rules -----------------===//

#include "ProbeRule.h"
#include "Dataflow.h"
#include "EvaluateFormula.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

func::FuncOp mlir::binade::getFormula(OptimizerOp rule, StringRef suffix) {
  return rule->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(
      (rule.getSymName() + suffix).str());
}

namespace {
/// The inputs of a rule for one element; all states have the same value.
struct Point {
  double parameter = 1.0, gradient = 1.0, state = 0.0;
  /// A small value, typical of learning rates.
  double rate = 0x1p-10;
  int64_t step = 1;
};
} // namespace

/// Returns the new parameter; NaN if it cannot be evaluated.
static double updateOnce(OptimizerOp rule, const Point &at) {
  Builder b(rule.getContext());
  auto narrow = [&](double value) -> Attribute {
    return b.getF32FloatAttr(static_cast<float>(value));
  };
  SmallVector<Attribute> arguments = {narrow(at.parameter),
                                      narrow(at.gradient)};
  arguments.append(rule.getStates().size(), narrow(at.state));
  SmallVector<Attribute> given = {b.getI64IntegerAttr(at.step)};
  given.append(rule.getHypers().size(), b.getF64FloatAttr(at.rate));
  for (Attribute number : evaluateFormula(getFormula(rule, ".scalars"), given))
    arguments.push_back(narrow(cast<FloatAttr>(number).getValueAsDouble()));
  func::FuncOp update = getFormula(rule, ".update");
  if (arguments.size() != update.getNumArguments())
    return NAN;
  SmallVector<Attribute> results = evaluateFormula(update, arguments);
  return results.empty() ? NAN
                         : cast<FloatAttr>(results.front()).getValueAsDouble();
}

/// Whether a new state reads a scalar that depends on the learning rate.
static bool doStatesReadRate(OptimizerOp rule) {
  func::FuncOp scalars = getFormula(rule, ".scalars"),
               update = getFormula(rule, ".update");
  auto getResults = [](func::FuncOp formula) {
    return formula.front().getTerminator()->getOperands();
  };
  DenseSet<Value> read = getCone(getResults(update).drop_front());
  size_t own = 2 + rule.getStates().size();
  return llvm::any_of(llvm::enumerate(getResults(scalars)), [&](auto number) {
    return read.contains(update.getArgument(own + number.index())) &&
           getCone(number.value()).contains(scalars.getArgument(1));
  });
}

bool mlir::binade::hasLearningRate(OptimizerOp rule) {
  if (doStatesReadRate(rule))
    return false;
  constexpr double kRoundings = 0x1p-18;
  auto isNear = [&](double x, double y, double size) {
    return std::fabs(x - y) <= kRoundings * size;
  };
  double moved = 0.0;
  for (int64_t step : {1, 2, 1000})
    for (double parameter : {0.0, 1.0}) {
      Point at{parameter, 1.0, 0.0, 0.0, step};
      double still = updateOnce(rule, at);
      at.gradient = -3.0;
      at.state = 0.5;
      if (updateOnce(rule, at) != still)
        return false;
      // A change that is clipped at some magnitude is clipped for one of these
      // rates.
      for (double rate : {0x1p-10, 1.0, 0x1p10}) {
        at.rate = rate;
        double once = updateOnce(rule, at);
        at.rate = 2.0 * rate;
        double twice = updateOnce(rule, at);
        double size =
            std::max({std::fabs(still), std::fabs(once), std::fabs(twice)});
        if (!isNear(twice - still, 2.0 * (once - still), size))
          return false;
        moved = std::max(moved, std::fabs(once - still));
      }
    }
  return moved > 0.0;
}

bool mlir::binade::keepsParameter(OptimizerOp rule) {
  double kept = updateOnce(rule, {2.0}) - updateOnce(rule, {1.0});
  return kept > 0.5 && kept < 1.5;
}
