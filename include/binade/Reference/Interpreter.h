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
  /// Leave results of type f32 as they are computed, in f64: to tell what two
  /// functions compute from how they round.
  bool keepsF64 = false;
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
