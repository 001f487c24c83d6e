//===- Optimizer.cpp - rules and updates ----------------------------------===//

#include "Families.h"
#include "Formula.h"
#include "Random.h"
#include "Storage.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using Number = Formula::Number;

/// The function of the optimizer's rule that `op` applies.
template <typename Op> static FailureOr<Formula> compileFormula(Op op) {
  StringAttr name = op.getFormula();
  auto function = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, name);
  if (!function)
    return op.emitOpError("needs function '@") << name.getValue() << "'";
  return Formula::compile(function);
}

static LogicalResult evaluateScalars(OptimizerScalarsOp op, Evaluation &e) {
  FailureOr<Formula> formula = compileFormula(op);
  if (failed(formula))
    return failure();
  Number step;
  step.integer = e[op.getStep()].getIntegers()[0] + 1;
  SmallVector<Number> arguments = {step};
  for (Value hyper : op.getHypers())
    arguments.push_back({.real = e[hyper][0]});
  // Rounded to f32, which hides how the last bit of f64 came about, but for
  // ties: an implementation may be off by one there.
  for (auto [index, scalar] : llvm::enumerate((*formula)(arguments))) {
    e.result(index)[0] = scalar.real;
    if (!formula->isExact())
      e.setError(index, 0, 0x1p-50 * std::fabs(scalar.real));
  }
  return success();
}

/// Squares and finiteness over all gradients.
static void evaluateGradientStatistics(GradientStatisticsOp op, Evaluation &e) {
  double sum = 0.0;
  int64_t count = 0;
  bool isFinite = true;
  for (const TensorRef &gradient : e.getOperands()) {
    count += gradient->getNumElements();
    for (double g : gradient->getFloats()) {
      sum += g * g;
      isFinite &= std::isfinite(g);
    }
  }
  e.result(0)[0] = sum;
  e.setError(0, 0, e.getRoundoff() * getSumConstant(count) * sum);
  e.result(1).getIntegers()[0] = !isFinite;
}

/// The word for element `index`; any where nothing is drawn.
static uint32_t drawRandom(OptimizerUpdateOp op, Evaluation &e, int64_t index) {
  if (op.getRandom().empty())
    return 0;
  int64_t seed = e[op.getRandom()[0]].getIntegers()[0],
          place = e[op.getRandom()[1]].getIntegers()[0];
  return drawBits(index, seed, place, static_cast<uint64_t>(place) >> 32);
}

static LogicalResult evaluateUpdate(OptimizerUpdateOp op, Evaluation &e) {
  if (op.getSkip() && e[op.getSkip()].getIntegers()[0]) {
    e.setResult(0, e.getOperands()[0]);
    for (unsigned i = 0, states = op.getStates().size(); i < states; ++i)
      e.setResult(1 + i, e.getOperands()[2 + i]);
    return success();
  }
  FailureOr<Formula> formula = compileFormula(op);
  if (failed(formula))
    return failure();
  const Tensor &parameter = e[op.getParameter()];
  const Tensor *beside = op.getBeside() ? &e[op.getBeside()] : nullptr;
  Tensor *newBeside = beside ? &e.result(op.getStates().size()) : nullptr;
  ParameterStorage storage(
      op.getMaster(), cast<FloatType>(parameter.getType().getElementType()));
  SmallVector<const Tensor *> tensors = {&e[op.getGradient()]};
  for (Value state : op.getRuleStates())
    tensors.push_back(&e[state]);
  SmallVector<Number> arguments(1 + tensors.size());
  for (Value scalar : op.getScalars())
    arguments.push_back({.real = e[scalar][0]});
  for (int64_t i = 0, count = parameter.getNumElements(); i < count; ++i) {
    arguments[0].real = storage.decode(parameter, beside, i);
    for (auto [argument, tensor] :
         llvm::zip(MutableArrayRef(arguments).drop_front(), tensors))
      argument.real = (*tensor)[i];
    for (Value factor : op.getFactors())
      arguments[1].real = static_cast<float>(arguments[1].real * e[factor][0]);
    ArrayRef<Number> results = (*formula)(arguments);
    storage.update(static_cast<float>(results[0].real), parameter, beside,
                   drawRandom(op, e, i), i, e.result(0), newBeside);
    for (auto [index, state] : llvm::enumerate(results.drop_front()))
      e.result(1 + index)[i] = state.real;
    if (!formula->isExact())
      for (auto [index, result] : llvm::enumerate(results))
        e.setError(index, i, 16.0 * e.getRoundoff() * std::fabs(result.real));
  }
  return success();
}

void mlir::binade::addOptimizer(Reference &reference) {
  reference.add<OptimizerScalarsOp>(evaluateScalars);
  reference.add<GradientStatisticsOp>(evaluateGradientStatistics);
  reference.add<OptimizerUpdateOp>(evaluateUpdate);
}
