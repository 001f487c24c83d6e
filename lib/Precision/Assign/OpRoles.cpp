//===- OpRoles.cpp - Tensor roles of the ops of a step --------------------===//

#include "binade/Precision/OpRoles.h"
#include "Repetition.h"
#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include <cmath>
#include <map>

using namespace mlir;
using namespace mlir::binade;

static uint8_t toBit(TensorRole role) { return 1 << static_cast<int>(role); }

/// Whether `op` only moves or casts its operand.
static bool isMove(Operation *op) {
  return op->getNumResults() == 1 && getMoved(op->getResult(0));
}

static std::optional<TensorRole> getOperandRole(OpOperand &operand) {
  if (auto op = dyn_cast<PrecisionOpInterface>(operand.getOwner()))
    return op.getOperandRole(operand.getOperandNumber());
  return std::nullopt;
}

OpRoles::OpRoles(func::FuncOp step) {
  addParameters(step);
  addEnds(step);
  addBlocks(step);
  addGradients(step);
  addStates(step);
  addLogits(step);
}

void OpRoles::addParameters(func::FuncOp step) {
  for (Port port : getArguments(step, Role::Parameter)) {
    Value parameter = step.getArgument(port.index);
    bool isWeight = cast<ShapedType>(parameter.getType()).getRank() >= 2;
    tensors[parameter] = {
        toBit(isWeight ? TensorRole::Weight : TensorRole::Bias),
        isWeight ? parameter : Value()};
  }
  // Operands are defined before their readers, so one traversal propagates
  // roles.
  step.walk([&](Operation *op) {
    if (getPhase(op) == Phase::Optimizer)
      return;
    for (OpOperand &operand : op->getOpOperands()) {
      Tensor tensor = getOperand(operand);
      if (op->getNumResults() == 1 &&
          getMoved(op->getResult(0)) == operand.get()) {
        if (tensor.roles)
          tensors[op->getResult(0)] = tensor;
        continue;
      }
      if (getPhase(op) != Phase::Forward || !tensor.roles)
        continue;
      Value parameter = operand.get();
      while (Value moved = getMoved(parameter))
        parameter = moved;
      uses[parameter] |= tensor.roles;
    }
  });
}

/// Finds the first and the last weights by the longest path of ops before and
/// after each reader.
void OpRoles::addEnds(func::FuncOp step) {
  SmallVector<Operation *> ops;
  step.walk([&](Operation *op) {
    if (getPhase(op) == Phase::Forward)
      ops.push_back(op);
  });
  DenseMap<Operation *, int64_t> before, after;
  for (Operation *op : ops) {
    int64_t &count = before[op];
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        count = std::max(count, before.lookup(producer) + !isMove(producer));
  }
  for (Operation *op : llvm::reverse(ops)) {
    int64_t &count = after[op];
    for (Operation *user : op->getUsers())
      if (getPhase(user) == Phase::Forward)
        count = std::max(count, after.lookup(user) + !isMove(user));
  }
  auto addLongest = [&](auto &weights, const auto &counts) {
    int64_t longest = -1;
    for (Operation *op : ops)
      for (OpOperand &operand : op->getOpOperands()) {
        Value weight = isMove(op) ? Value() : getOperand(operand).weight;
        int64_t count = counts.lookup(op);
        if (!weight || count < longest)
          continue;
        if (count > longest)
          weights.clear();
        longest = count;
        weights.insert(weight);
      }
  };
  addLongest(firstWeights, after);
  addLongest(lastWeights, before);
}

/// Layers are equal if their ops have the same name and the same types.
void OpRoles::addBlocks(func::FuncOp step) {
  SmallVector<Value> weights;
  SmallVector<unsigned> layers;
  std::map<std::vector<const void *>, unsigned> kinds;
  llvm::DenseSet<Value> known;
  step.walk([&](Operation *op) {
    if (getPhase(op) != Phase::Forward || isMove(op))
      return;
    for (OpOperand &operand : op->getOpOperands()) {
      Value weight = getOperand(operand).weight;
      if (!weight || !known.insert(weight).second)
        continue;
      std::vector<const void *> key = {op->getName().getAsOpaquePointer()};
      for (TypeRange types :
           {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
        for (Type type : types)
          key.push_back(type.getAsOpaquePointer());
      weights.push_back(weight);
      layers.push_back(kinds.try_emplace(key, kinds.size()).first->second);
    }
  });
  Repetition chain = findRepetition(layers);
  numBlocks = chain.count;
  for (size_t i = 0; i < chain.count * chain.period; ++i)
    blocks[weights[chain.first + i]] = i / chain.period;
}

void OpRoles::addGradients(func::FuncOp step) {
  for (Port port : getResults(step, Role::Gradient))
    if (auto argument = findArgument(step, Role::Parameter, port.name))
      addGradient(getResultValue(step, port.index),
                  step.getArgument(argument->index));
  // An update reads one parameter and one result of the backward pass: its
  // gradient.
  step.walk([&](Operation *op) {
    if (getPhase(op) != Phase::Optimizer)
      return;
    SmallVector<Value> parameters, gradients;
    for (Value operand : op->getOperands()) {
      auto argument = dyn_cast<BlockArgument>(operand);
      auto port = argument ? getArgument(step, argument.getArgNumber())
                           : std::optional<Port>();
      if (port && port->role == Role::Parameter)
        parameters.push_back(operand);
      if (Operation *producer = operand.getDefiningOp();
          producer && getPhase(producer) == Phase::Backward)
        gradients.push_back(operand);
    }
    if (parameters.size() == 1 && gradients.size() == 1)
      addGradient(gradients.front(), parameters.front());
  });
}

void OpRoles::addGradient(Value gradient, Value parameter) {
  gradients.insert({gradient, parameter});
  Tensor tensor = tensors.lookup(parameter);
  if (Set used = uses.lookup(parameter))
    tensor.roles = used;
  tensor.roles |= toBit(TensorRole::Gradient);
  for (; gradient; gradient = getMoved(gradient))
    tensors[gradient] = tensor;
}

void OpRoles::addStates(func::FuncOp step) {
  for (Port port : getArguments(step, Role::State))
    tensors[step.getArgument(port.index)].roles |= toBit(TensorRole::State);
  for (Port port : getResults(step, Role::State))
    tensors[getResultValue(step, port.index)].roles |= toBit(TensorRole::State);
}

void OpRoles::addLogits(func::FuncOp step) {
  step.walk([&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      if (getOperandRole(operand) == TensorRole::Logits)
        for (Value logits = operand.get(); logits; logits = getMoved(logits))
          tensors[logits].roles |= toBit(TensorRole::Logits);
  });
}

/// Returns the roles of the tensor as the op reads it: a table that is a weight
/// elsewhere is an embedding for the op that gathers its rows.
OpRoles::Tensor OpRoles::getOperand(OpOperand &operand) const {
  Tensor tensor = tensors.lookup(operand.get());
  std::optional<TensorRole> role = getOperandRole(operand);
  if (role && tensor.roles)
    return {toBit(*role), {}};
  // An update sees a parameter in all roles that the forward pass reads it in.
  if (isa<OptimizerUpdateOp>(operand.getOwner()))
    if (Set used = uses.lookup(operand.get()))
      tensor.roles = used;
  return tensor;
}

bool OpRoles::has(Operation *op, TensorRole role) const {
  if (role == TensorRole::Activation && getPhase(op) == Phase::Optimizer)
    return false;
  auto isOfRole = [role](Set roles, Type type) {
    if (role == TensorRole::Activation)
      return roles == 0 && isa<FloatType>(getElementTypeOrSelf(type));
    return (roles & toBit(role)) != 0;
  };
  for (OpOperand &operand : op->getOpOperands())
    if (isOfRole(getOperand(operand).roles, operand.get().getType()))
      return true;
  return llvm::any_of(op->getResults(), [&](Value result) {
    return isOfRole(tensors.lookup(result).roles, result.getType());
  });
}

/// Whether `op` reads a weight, or writes the gradient of a weight, for which
/// `isWanted` holds.
bool OpRoles::hasWeight(Operation *op,
                        function_ref<bool(Value)> isWanted) const {
  auto isOfWeight = [&](const Tensor &tensor) {
    return tensor.weight && isWanted(tensor.weight);
  };
  return llvm::any_of(op->getOpOperands(),
                      [&](OpOperand &operand) {
                        return isOfWeight(getOperand(operand));
                      }) ||
         llvm::any_of(op->getResults(), [&](Value result) {
           return isOfWeight(tensors.lookup(result));
         });
}

bool OpRoles::isAt(Operation *op, LayerPosition position) const {
  const auto &weights =
      position == LayerPosition::First ? firstWeights : lastWeights;
  return hasWeight(op, [&](Value weight) { return weights.contains(weight); });
}

bool OpRoles::isIn(Operation *op, const BlockEnds &range) const {
  int64_t first = range.first.resolve(numBlocks),
          last = range.last.resolve(numBlocks);
  return hasWeight(op, [&](Value weight) {
    auto found = blocks.find(weight);
    return found != blocks.end() &&
           (found->second < first || found->second + last >= numBlocks);
  });
}
