//===- Formulas.cpp - Formulas of optimizer rules -------------------------===//

#include "../Casts/Quotient.h"
#include "../Casts/RandomRounding.h"
#include "Emitter.h"
#include "ParameterStorage.h"
#include "binade/IR/Build.h"
#include "binade/IR/Rules.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::binade;

/// Whether `op` divides square roots in f32, which can be replaced by
/// multiplications with the same result.
static bool dividesRoots(Operation &op) {
  auto division = dyn_cast<arith::DivFOp>(op);
  return division && division.getType().isF32() &&
         division.getLhs().getDefiningOp<math::SqrtOp>();
}

/// Divides square roots by one divisor.
static Value divideRoots(Emitter &e, Value roots, Value divisor) {
  ImplicitLocOpBuilder &b = e.builder();
  FloatLanes x(b, roots), all(b, divisor);
  FloatLanes opposite = all.constant(-1.0) / all;
  FloatLanes quotient = divideRoot(x, {b, e.broadcast(divisor)},
                                   {b, e.broadcast(opposite.value)});
  BoolLanes holds = isDivisorOfRoots(all) & isFiniteRoot(quotient);
  return divideElsewhere(x, all, quotient, holds).value;
}

/// Inlines the body of `formula`. Ops with a vector as an operand become ops on
/// vectors.
SmallVector<Value> Emitter::inlineFormula(func::FuncOp formula,
                                          ArrayRef<Value> arguments) {
  IRMapping inside;
  inside.map(formula.getArguments(), arguments);
  for (Operation &op : formula.front().without_terminator()) {
    SmallVector<Value> operands = llvm::map_to_vector(
        op.getOperands(), [&](Value x) { return inside.lookup(x); });
    auto vector = llvm::find_if(
        operands, [](Value x) { return isa<VectorType>(x.getType()); });
    SmallVector<Type> types(op.getResultTypes());
    if (isOnGpu() && dividesRoots(op) &&
        isa<VectorType>(operands[0].getType()) &&
        !isa<VectorType>(operands[1].getType())) {
      inside.map(op.getResult(0), divideRoots(*this, operands[0], operands[1]));
      continue;
    }
    if (vector != operands.end()) {
      auto lanes = cast<VectorType>((*vector).getType());
      for (Value &operand : operands)
        operand = broadcast(operand);
      for (Type &type : types)
        type = lanes.clone(type);
    }
    OperationState state(b.getLoc(), op.getName(), operands, types,
                         op.getAttrs());
    Operation *copy = b.create(state);
    inside.map(op.getResults(), copy->getResults());
  }
  return llvm::map_to_vector(formula.front().getTerminator()->getOperands(),
                             [&](Value x) { return inside.lookup(x); });
}

Element Emitter::computeFormula(Operation *op, unsigned result,
                                const Offset &offset) {
  auto update = dyn_cast<OptimizerUpdateOp>(op);
  StringAttr name =
      update ? update.getFormula() : cast<OptimizerScalarsOp>(op).getFormula();
  auto formula = formulas ? formulas.lookupSymbol<func::FuncOp>(name) : nullptr;
  if (!formula)
    return fail(op, "needs function '@" + name.getValue() + "'",
                getTensor(op->getResult(result)).getElementType());
  return update ? computeUpdate(update, formula, result, offset)
                : computeScalars(cast<OptimizerScalarsOp>(op), formula, result);
}

Element Emitter::computeScalars(OptimizerScalarsOp op, func::FuncOp formula,
                                unsigned result) {
  unsigned where = 0;
  SmallVector<Value> arguments;
  for (Value operand : op->getOperands()) {
    Element element = pull(operand, Offset());
    where = std::max(where, element.depth);
    arguments.push_back(element.value);
  }
  At at(*this, where);
  // The formula counts steps from 1; the operand is the number of past steps.
  arguments[0] =
      arith::AddIOp::create(b, arguments[0], splat(b, arguments[0], 1));
  for (auto [scalar, value] :
       llvm::zip(op.getScalars(), inlineFormula(formula, arguments)))
    remember(scalar, Offset(),
             {narrow(value, getTensor(scalar).getElementType()), where});
  return *recall(op->getResult(result), Offset());
}

Element Emitter::computeUpdate(OptimizerUpdateOp op, func::FuncOp formula,
                               unsigned result, const Offset &offset) {
  unsigned where = 0;
  auto get = [&](Value x, const Offset &at) {
    Element element = pull(x, at);
    where = std::max(where, element.depth);
    return element.value;
  };
  ParameterStorage storage(*this, op);
  Value parameter, companion;
  if (storage.readsParameter())
    parameter = get(op.getParameter(), offset);
  if (Value kept = op.getCompanion())
    companion = get(kept, offset);
  SmallVector<Value> arguments = {Value(), get(op.getGradient(), offset)};
  SmallVector<KeptState> kept = op.getKeptStates();
  for (const KeptState &state : kept) {
    ValueRange parts = op.getStates().slice(state.first, state.count);
    if (!state.format) {
      arguments.push_back(get(parts.front(), offset));
      continue;
    }
    Element element = decode(state.format, parts, {}, offset);
    where = std::max(where, element.depth);
    arguments.push_back(element.value);
  }
  for (Value scalar : op.getScalars())
    arguments.push_back(get(scalar, Offset()));
  for (Value value : op.getValues())
    arguments.push_back(
        get(value, getTensor(value).getRank() == 0 ? Offset() : offset));
  SmallVector<Value> factors;
  for (Value factor : op.getFactors())
    factors.push_back(get(factor, Offset()));
  for (Value number : op.getRandom())
    get(number, Offset());
  if (!op.getRandom().empty())
    where = std::max(where, offset.depth());

  At at(*this, where);
  if (drawsRandomValue(formula))
    arguments.push_back(drawNumber(op, kFormulaStream, 0, offset).value);
  arguments[0] = storage.decode(parameter, companion);
  for (Value &argument : MutableArrayRef(arguments).drop_front())
    argument = widen(argument);
  for (Value factor : factors) {
    if (isa<VectorType>(arguments[1].getType()))
      factor = broadcast(factor);
    arguments[1] = arith::MulFOp::create(b, arguments[1], factor);
  }
  SmallVector<Value> results = inlineFormula(formula, arguments);
  std::optional<FloatLanes> random;
  if (op.getMaster() == Master::Stochastic)
    random = drawNumber(op, 0, 0, offset);
  auto [stored, keptNow] =
      storage.encode(arguments[0], results[0], companion, random);
  auto define = [&](Value y, Value value) {
    remember(y, offset, {narrow(value, getTensor(y).getElementType()), where});
  };
  define(op.getNewParameter(), stored);
  // The new value of a quantized state replaces its quantized values.
  for (auto [state, value] : llvm::zip(kept, ArrayRef(results).drop_front())) {
    Value y = op.getNewStates()[state.first];
    if (state.format) {
      remember(y, offset, {value, where});
    } else if (state.isRandom) {
      FloatLanes drawn = drawNumber(op, 0, 1 + state.index, offset);
      auto format = cast<FloatType>(getTensor(y).getElementType());
      define(y, roundRandomly({b, value}, format, drawn).value);
    } else {
      define(y, value);
    }
  }
  if (keptNow)
    define(op.getNewStates().back(), keptNow);
  return *recall(op->getResult(result), offset);
}

FloatLanes Emitter::drawNumber(OptimizerUpdateOp op, int64_t stream,
                               unsigned word, const Offset &offset) {
  bool hasLanes = offset.variesOverLanes();
  Value number = hasLanes ? perLane(offset) : this->number(offset);
  auto pullWord = [&](Value x) {
    Value value = pull(x, Offset()).value;
    return hasLanes ? broadcast(value) : value;
  };
  Value seed = pullWord(op.getRandom()[0]), place = pullWord(op.getRandom()[1]);
  Value index = arith::IndexCastOp::create(b, place.getType(), number);
  if (op.getRandom().size() > 2)
    index = arith::AddIOp::create(b, index, pullWord(op.getRandom()[2]));
  Value above = arith::ShRUIOp::create(b, place, splat(b, place, 32));
  if (stream != 0)
    above = arith::AddIOp::create(b, above, splat(b, place, stream));
  std::array<Value, 4> words = buildRandomWords(b, index, above, place, seed);
  return {b, buildUniform(b, words[word])};
}
