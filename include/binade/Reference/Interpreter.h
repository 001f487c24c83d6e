//===- Interpreter.h - evaluate functions of a module -----------*- C++ -*-===//

#ifndef BINADE_REFERENCE_INTERPRETER_H
#define BINADE_REFERENCE_INTERPRETER_H

#include "binade/Reference/Reference.h"
#include "mlir/IR/BuiltinOps.h"
#include <map>
#include <string>

namespace mlir::binade {

using NamedTensors = std::map<std::string, TensorRef>;

/// What arguments (`getArgumentNames`) or results of `function` are called:
/// their `binade.name`, or `arg<i>` and `result<i>` where they have none.
/// Names that occur more than once are told apart by role: `gradient/w`.
SmallVector<std::string> getArgumentNames(func::FuncOp function);
SmallVector<std::string> getResultNames(func::FuncOp function);

struct EvaluationOptions {
  /// Directory that `#binade.external` refers to.
  std::string directory;
  /// Also compute bounds.
  bool bounds = false;
  /// Whether floats are rounded to the formats of their types. Without, all is
  /// as f64 has it, but for roundings that are an op's own.
  bool rounds = true;
  /// Told of each op of the function with what it read and what it made.
  std::function<LogicalResult(Operation *, ArrayRef<TensorRef> operands,
                              ArrayRef<TensorRef> results)>
      observe = {};
  /// Computes kernels in place of the reference, where given: results of
  /// `types`, which those of a kernel over many tensors do not have.
  std::function<FailureOr<SmallVector<TensorRef>>(
      func::FuncOp, ArrayRef<TensorRef>, ArrayRef<RankedTensorType> types)>
      kernels = {};
};

/// The function of that name that has a body, or an error that lists all.
FailureOr<func::FuncOp> findFunction(ModuleOp module, StringRef name);

/// One tensor per argument of `function`: from `inputs`, or what the argument's
/// `binade.init` says. Errors: missing or superfluous inputs, inputs of another
/// type.
FailureOr<NamedTensors> completeInputs(func::FuncOp function,
                                       const NamedTensors &inputs,
                                       const EvaluationOptions &options);

struct Outputs {
  NamedTensors values;
  /// How far a correct implementation may be from `values`, as f64 tensors of
  /// the same shapes; only when asked for. For one op this is the bound that
  /// stands beside its function. Through several ops it grows by as much as
  /// the output moved, times a safety factor, in evaluations that moved every
  /// intermediate value at random within its own bound.
  NamedTensors bounds;
};

/// Evaluates `@name` of `module` on `inputs`, completed as above. Errors, at
/// the function or op: no such function, wrong inputs, an op without a meaning
/// in the reference, data that an op rejects.
FailureOr<Outputs> evaluate(ModuleOp module, StringRef name,
                            const NamedTensors &inputs,
                            const EvaluationOptions &options = {});

/// How many products of `op` are computed in the time of one: those of matrices
/// are summed in registers, as many as a vector holds.
int64_t countAtOnce(Operation *op);

/// The results of one op, which may be one that is observed, on `operands`.
FailureOr<SmallVector<TensorRef>> evaluate(Operation *op,
                                           ArrayRef<TensorRef> operands,
                                           const EvaluationOptions &options);

/// The parameter and the states of an update as numbers of f32, whatever they
/// are kept in: those that it read, of all its operands, or those that it
/// wrote, of all its results.
SmallVector<TensorRef> getKeptBefore(OptimizerUpdateOp op,
                                     ArrayRef<TensorRef> operands);
SmallVector<TensorRef> getKeptAfter(OptimizerUpdateOp op,
                                    ArrayRef<TensorRef> results);

/// The element of `result` that is farthest from `reference`, measured in
/// `bound`.
struct Deviation {
  double ratio = 0.0; ///< At most 1 where `result` is correct.
  int64_t index = 0;  ///< Row-major.
  double difference = 0.0, bound = 0.0;
};

/// Compares tensors of one shape. NaN agrees with NaN; another number where one
/// side is NaN or infinite, or any difference where the bound is 0, has an
/// infinite ratio. A null `bound` is 0 everywhere.
Deviation compare(const Tensor &result, const Tensor &reference,
                  const Tensor *bound);

} // namespace mlir::binade

#endif // BINADE_REFERENCE_INTERPRETER_H
