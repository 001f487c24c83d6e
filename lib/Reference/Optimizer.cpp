//===- Optimizer.cpp - Optimizer rules and updates ------------------------===//

#include "Families.h"
#include "Formula.h"
#include "Random.h"
#include "Storage.h"
#include "binade/IR/Rules.h"
#include "binade/Reference/Codec.h"
#include "binade/Reference/Interpreter.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using Number = Formula::Number;

/// Returns the function of the optimizer's rule that `op` applies; or null.
template <typename Op> static func::FuncOp lookUpFormula(Op op) {
  return SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op,
                                                            op.getFormula());
}

template <typename Op> static FailureOr<Formula> compileFormula(Op op) {
  func::FuncOp function = lookUpFormula(op);
  if (!function)
    return op.emitOpError("needs function '@")
           << op.getFormula().getValue() << "'";
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
  // Rounding to f32 hides differences in the last bit of f64, except for ties,
  // where an implementation may differ by one unit.
  for (auto [index, scalar] : llvm::enumerate((*formula)(arguments))) {
    e.result(index)[0] = scalar.real;
    if (!formula->isExact())
      e.setError(index, 0, 0x1p-50 * std::fabs(scalar.real));
  }
  return success();
}

/// Computes the sum of squares and the finiteness of all gradients.
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

/// Returns the random values of element `index`; zeros if the op draws none.
static std::array<float, 4> drawRandom(OptimizerUpdateOp op, Evaluation &e,
                                       int64_t index, int64_t stream = 0) {
  if (op.getRandom().empty())
    return {};
  int64_t seed = e[op.getRandom()[0]].getIntegers()[0],
          place = e[op.getRandom()[1]].getIntegers()[0];
  stream += static_cast<int64_t>(static_cast<uint64_t>(place) >> 32);
  if (op.getRandom().size() > 2)
    index += e[op.getRandom()[2]].getIntegers()[0];
  return drawUniform(index, seed, place, stream);
}

/// Returns the elements of a state before the update, dequantized.
static std::vector<double> readState(OptimizerUpdateOp op, Evaluation &e,
                                     const KeptState &kept,
                                     ArrayRef<int64_t> shape) {
  SmallVector<const Tensor *> parts;
  for (Value part : op.getStates().slice(kept.first, kept.count))
    parts.push_back(&e[part]);
  if (kept.format)
    return dequantize(kept.format, shape, parts);
  ArrayRef<double> numbers = parts.front()->getFloats();
  return {numbers.begin(), numbers.end()};
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
  const Tensor *companion = op.getCompanion() ? &e[op.getCompanion()] : nullptr;
  Tensor *newCompanion = companion ? &e.result(op.getStates().size()) : nullptr;
  StoredParameter storage(
      op.getMaster(), cast<FloatType>(parameter.getType().getElementType()));
  ArrayRef<int64_t> shape = parameter.getShape();
  SmallVector<KeptState> kept = op.getKeptStates();
  SmallVector<std::vector<double>> states;
  for (const KeptState &state : kept)
    states.push_back(readState(op, e, state, shape));
  const Tensor &gradient = e[op.getGradient()];
  SmallVector<Number> arguments(2 + states.size());
  for (Value scalar : op.getScalars())
    arguments.push_back({.real = e[scalar][0]});
  SmallVector<const Tensor *> values;
  for (Value value : op.getValues())
    values.push_back(&e[value]);
  size_t firstValue = arguments.size();
  bool draws = drawsRandomValue(lookUpFormula(op));
  arguments.resize(firstValue + values.size() + draws);
  for (int64_t i = 0, count = parameter.getNumElements(); i < count; ++i) {
    arguments[0].real = storage.decode(parameter, companion, i);
    arguments[1].real = gradient[i];
    for (auto [argument, numbers] :
         llvm::zip(MutableArrayRef(arguments).drop_front(2), states))
      argument.real = numbers[i];
    for (auto [argument, value] :
         llvm::zip(MutableArrayRef(arguments).drop_front(firstValue), values))
      argument.real = (*value)[value->getShape().empty() ? 0 : i];
    if (draws)
      arguments.back().real = drawRandom(op, e, i, kFormulaStream).front();
    for (Value factor : op.getFactors())
      arguments[1].real = static_cast<float>(arguments[1].real * e[factor][0]);
    ArrayRef<Number> results = (*formula)(arguments);
    std::array<float, 4> random = drawRandom(op, e, i);
    storage.update(static_cast<float>(results[0].real), parameter, companion,
                   random[0], i, e.result(0), newCompanion);
    auto allow = [&](unsigned result, double value) {
      if (!formula->isExact())
        e.setError(result, i, 16.0 * e.getRoundoff() * std::fabs(value));
    };
    allow(0, results[0].real);
    for (auto [state, numbers, result] :
         llvm::zip(kept, states, results.drop_front())) {
      numbers[i] = result.real;
      if (state.format)
        continue;
      Tensor &y = e.result(1 + state.first);
      y[i] = result.real;
      if (state.isRandom)
        y[i] = FloatFormat(cast<FloatType>(y.getType().getElementType())
                               .getFloatSemantics())
                   .roundRandomly(result.real, random[1 + state.index]);
      allow(1 + state.first, result.real);
    }
  }
  for (auto [state, numbers] : llvm::zip(kept, states))
    if (state.format)
      for (auto [index, part] : llvm::enumerate(
               quantize(state.format, shape, numbers, /*saturate=*/true,
                        [&, &kept = state](int64_t element) {
                          return drawRandom(op, e, element)[1 + kept.index];
                        })))
        e.result(1 + state.first + index) = std::move(part);
  return success();
}

//===----------------------------------------------------------------------===//
// Parameters and states as f32
//===----------------------------------------------------------------------===//

static SmallVector<TensorRef> decodeKept(OptimizerUpdateOp op,
                                         const Tensor &parameter,
                                         ArrayRef<TensorRef> states,
                                         const Tensor *companion) {
  auto type = cast<RankedTensorType>(
      parameter.getType().clone(Float32Type::get(op.getContext())));
  StoredParameter storage(
      op.getMaster(), cast<FloatType>(parameter.getType().getElementType()));
  Tensor wide(type);
  for (int64_t i = 0, count = wide.getNumElements(); i < count; ++i)
    wide[i] = storage.decode(parameter, companion, i);
  SmallVector<TensorRef> numbers = {std::make_shared<Tensor>(std::move(wide))};
  for (const KeptState &kept : op.getKeptStates()) {
    SmallVector<const Tensor *> parts =
        llvm::map_to_vector(states.slice(kept.first, kept.count),
                            [](const TensorRef &part) { return part.get(); });
    RankedTensorType stateType =
        kept.format ? type : type.clone(parts.front()->getShape());
    Tensor state(stateType);
    if (kept.format)
      llvm::copy(dequantize(kept.format, type.getShape(), parts),
                 state.getFloats().begin());
    else
      llvm::copy(parts.front()->getFloats(), state.getFloats().begin());
    numbers.push_back(std::make_shared<Tensor>(std::move(state)));
  }
  return numbers;
}

SmallVector<TensorRef>
mlir::binade::getKeptBefore(OptimizerUpdateOp op,
                            ArrayRef<TensorRef> operands) {
  const Tensor *companion = nullptr;
  if (Value kept = op.getCompanion())
    for (auto [operand, tensor] : llvm::zip(op->getOperands(), operands))
      if (operand == kept)
        companion = tensor.get();
  return decodeKept(op, *operands[0], operands.slice(2, op.getStates().size()),
                    companion);
}

SmallVector<TensorRef> mlir::binade::getKeptAfter(OptimizerUpdateOp op,
                                                  ArrayRef<TensorRef> results) {
  size_t states = op.getStates().size();
  const Tensor *companion = op.getCompanion() ? results[states].get() : nullptr;
  return decodeKept(op, *results[0], results.slice(1, states), companion);
}

void mlir::binade::addOptimizer(Reference &reference) {
  reference.add<OptimizerScalarsOp>(evaluateScalars);
  reference.add<GradientStatisticsOp>(evaluateGradientStatistics);
  reference.add<OptimizerUpdateOp>(evaluateUpdate);
}
