//===- FunctionEvaluator.h - Evaluation of functions ------------*- C++ -*-===//

#ifndef BINADE_LIB_REFERENCE_FUNCTIONEVALUATOR_H
#define BINADE_LIB_REFERENCE_FUNCTIONEVALUATOR_H

#include "binade/Reference/Interpreter.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::binade {

/// The tensors of values that still have uses.
class Environment {
public:
  void define(Value value, TensorRef tensor) {
    if (!value.use_empty())
      tensors[value] = {std::move(tensor),
                        std::distance(value.use_begin(), value.use_end())};
  }
  TensorRef use(Value value) {
    auto found = tensors.find(value);
    TensorRef tensor = found->second.first;
    if (--found->second.second == 0)
      tensors.erase(found);
    return tensor;
  }

private:
  DenseMap<Value, std::pair<TensorRef, int64_t>> tensors;
};

class FunctionEvaluator {
public:
  /// With `draw`, results are perturbed within their bounds before other ops
  /// read them.
  FunctionEvaluator(const EvaluationOptions &options,
                    std::function<double()> draw = {})
      : options(options), draw(std::move(draw)) {
    context.call = [&](Operation *user, func::FuncOp function,
                       ArrayRef<TensorRef> operands,
                       ArrayRef<RankedTensorType> results) {
      return call(user, function, operands, results);
    };
    context.run = [&](Block &block, ArrayRef<TensorRef> arguments) {
      return evaluate(block, arguments, std::nullopt);
    };
    context.load = [&](Operation *user, Attribute value) {
      return load(user, value);
    };
  }

  FunctionEvaluator(const FunctionEvaluator &) = delete;

  FailureOr<SmallVector<TensorRef>> evaluate(func::FuncOp function,
                                             ArrayRef<TensorRef> arguments);
  /// Evaluates one op.
  FailureOr<SmallVector<TensorRef>> evaluate(Operation *op,
                                             ArrayRef<TensorRef> operands);
  FailureOr<Tensor> load(Operation *user, Attribute value);

  /// Returns the bound of the op that computed result `index` of `function`;
  /// null if it is exact or an argument.
  TensorRef getBound(func::FuncOp function, unsigned index) const {
    Value value = function.front().getTerminator()->getOperand(index);
    return returned.lookup(value).bound;
  }

private:
  struct Returned {
    TensorRef value, bound;
  };

  FailureOr<SmallVector<TensorRef>> call(Operation *user, func::FuncOp function,
                                         ArrayRef<TensorRef> operands,
                                         ArrayRef<RankedTensorType> results);
  /// Returns the operands of the block's terminator.
  FailureOr<SmallVector<TensorRef>> evaluate(Block &block,
                                             ArrayRef<TensorRef> arguments,
                                             std::optional<int64_t> length);
  LogicalResult evaluateOp(Operation *op, Environment &environment,
                           std::optional<int64_t> length);

  const EvaluationOptions &options;
  std::function<double()> draw;
  Evaluation::Context context;
  llvm::SmallSetVector<Operation *, 4> active; // Functions being evaluated.
  DenseMap<Value, Returned> returned;          // Of the outermost function.
};

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_FUNCTIONEVALUATOR_H
