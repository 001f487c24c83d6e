//===- Interpreter.h - Evaluate functions of a module -----------*- C++ -*-===//

#ifndef BINADE_REFERENCE_INTERPRETER_H
#define BINADE_REFERENCE_INTERPRETER_H

#include "binade/Reference/Reference.h"
#include "mlir/IR/BuiltinOps.h"
#include <map>
#include <string>

namespace mlir::binade {

using NamedTensors = std::map<std::string, TensorRef>;

/// Return the names of arguments or results of `function`: their `binade.name`,
/// or `arg<i>` and `result<i>` if they have none. Names that occur more than
/// once are prefixed with the role: `gradient/w`.
SmallVector<std::string> getArgumentNames(func::FuncOp function);
SmallVector<std::string> getResultNames(func::FuncOp function);

struct EvaluationOptions {
  /// The directory to which `#binade.external` is relative.
  std::string directory;
  /// Whether to compute error bounds, too.
  bool bounds = false;
  /// Whether floats are rounded to the formats of their types. Otherwise all
  /// values are f64, except for the results of ops that round by definition.
  bool rounds = true;
  /// Called for each op of the function with its operands and results.
  std::function<LogicalResult(Operation *, ArrayRef<TensorRef> operands,
                              ArrayRef<TensorRef> results)>
      observe = {};
  /// If set, computes kernels instead of the reference. `types` are those of
  /// the results; a multi-tensor kernel itself has vectors instead.
  std::function<FailureOr<SmallVector<TensorRef>>(
      func::FuncOp, ArrayRef<TensorRef>, ArrayRef<RankedTensorType> types)>
      kernels = {};
};

/// Returns the function of that name with a body, or emits an error that lists
/// all.
FailureOr<func::FuncOp> findFunction(ModuleOp module, StringRef name);

/// Returns one tensor per argument of `function`: from `inputs`, or from the
/// argument's `binade.init`. Emits an error for missing or superfluous inputs,
/// and for inputs of another type.
FailureOr<NamedTensors> completeInputs(func::FuncOp function,
                                       const NamedTensors &inputs,
                                       const EvaluationOptions &options);

struct Outputs {
  NamedTensors values;
  /// The largest difference of a correct implementation from `values`, as f64
  /// tensors of the same shapes; only if requested. For one op it is the bound
  /// defined next to the op's function. For several ops, the change of the
  /// output is added, times a safety factor, in evaluations that perturb every
  /// intermediate value randomly within its own bound.
  NamedTensors bounds;
};

/// Evaluates `@name` of `module` on `inputs`, completed as above. Emits errors
/// at the function or op: no such function, wrong inputs, an op that the
/// reference does not implement, data that an op rejects.
FailureOr<Outputs> evaluate(ModuleOp module, StringRef name,
                            const NamedTensors &inputs,
                            const EvaluationOptions &options = {});

/// Returns how many multiply-adds of `op` take the time of one of other ops:
/// matmuls accumulate in registers, as many as a vector has elements.
int64_t countAtOnce(Operation *op);

/// Evaluates one op, also one passed to `observe`, on `operands`.
FailureOr<SmallVector<TensorRef>> evaluate(Operation *op,
                                           ArrayRef<TensorRef> operands,
                                           const EvaluationOptions &options);

/// Return the parameter and the states of an update as f32, whatever their
/// storage formats: those before the update from all its operands, those after
/// it from all its results.
SmallVector<TensorRef> getKeptBefore(OptimizerUpdateOp op,
                                     ArrayRef<TensorRef> operands);
SmallVector<TensorRef> getKeptAfter(OptimizerUpdateOp op,
                                    ArrayRef<TensorRef> results);

/// The element of `result` that is farthest from `reference`, in units of
/// `bound`.
struct Deviation {
  double ratio = 0.0; ///< At most 1 if `result` is correct.
  int64_t index = 0;  ///< Row-major.
  double difference = 0.0, bound = 0.0;
};

/// Compares tensors of the same shape. NaN equals NaN. The ratio is infinite if
/// only one side is NaN or infinite, and for any difference if the bound is 0.
/// A null `bound` is 0 everywhere.
Deviation compare(const Tensor &result, const Tensor &reference,
                  const Tensor *bound);

} // namespace mlir::binade

#endif // BINADE_REFERENCE_INTERPRETER_H
