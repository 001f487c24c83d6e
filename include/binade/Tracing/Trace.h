//===- Trace.h - Trace of a step and its rounding errors --------*- C++ -*-===//
//
// The reference interpreter computes a step with the formats of its policy, and
// finds the first non-finite value. Each op is also computed in f64, once with
// the operands that it has under the policy, and once in a step that is f64
// from the start. The difference of the result from the former is the error
// that the op's format introduces; the difference of the two is the error that
// the op inherits.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_TRACING_TRACE_H
#define BINADE_TRACING_TRACE_H

#include "binade/Reference/Interpreter.h"

namespace mlir::binade {

/// Statistics of a value's elements.
struct TracedRange {
  int64_t elements = 0, zeros = 0;
  int64_t wrong = 0;         ///< NaN and plus infinity.
  int64_t minusInfinite = 0; ///< Counted separately, because masks have them.
  double smallest = 0; ///< Smallest nonzero magnitude; 0 if there is none.
  double largest = 0;  ///< Largest finite magnitude.
};

/// A value of the step, which is a result of an op or an argument.
struct TracedValue {
  std::string kind; ///< The op's name without dialect, or the argument's role.
  std::string node; ///< The node, or the name of the parameter or input.
  Phase phase = Phase::Forward;
  std::string format;   ///< Format of the stored elements.
  double limit = 0;     ///< Largest finite value of the format.
  std::string decision; ///< The decision as text; empty without one.
  std::string rule;     ///< The policy rule that decided.
  /// Accumulation format of a contraction's decision; empty for other ops. A
  /// trace computes sums exactly.
  std::string sums;
  TracedRange range;
};

/// The value at which a step first became non-finite.
struct NonFiniteOrigin {
  TracedValue value;
  /// The largest magnitude of the op's result when it is computed in f64 from
  /// the same operands; 0 for arguments.
  double exact = 0;
  std::vector<TracedValue> operands = {};
  /// The values that led to the largest operand, the nearest first.
  std::vector<TracedValue> producers = {};
  /// Ops that read the value and have a decision.
  std::vector<TracedValue> readers = {};
};

/// The error of one result of an op. Errors are Euclidean norms over the
/// elements that are finite in all computations.
struct TracedError {
  TracedValue value;
  /// Index of the result. Result 0 of an update is the change of the parameter.
  unsigned result = 0;
  double signal = 0; ///< Norm of the result in the f64 step.
  double local = 0;  ///< Norm of the f64 result for the policy's operands.
  double error = 0, introduced = 0, inherited = 0;
  /// Elements that are 0, or not finite, but are not so when the op is computed
  /// in f64 from the same operands.
  int64_t underflow = 0, overflow = 0;
  /// Elements that are 0 but are not 0 in the f64 step: they underflowed here
  /// or earlier, for example in a constant.
  int64_t vanished = 0;
};

/// The result of tracing a step.
struct StepTrace {
  double loss = 0;
  std::optional<NonFiniteOrigin> origin;
  std::optional<double> exactLoss;
  std::vector<TracedError> errors; ///< In the order of the step.
  /// Ops that exist only in the f64 step.
  int64_t unmatched = 0;
};

/// Returns a copy of `module`, which is the result of phase `assign`, without
/// decisions, so that everything is f32.
OwningOpRef<ModuleOp> makeUnroundedCopy(ModuleOp module);

/// Computes `@step` of `module` with `inputs`, which are named "role/name" and
/// may contain unused ones, and `@step` of `exact` in f64, unless it is null.
/// Both modules are results of phase `programs`. Errors, at the function: a
/// missing input, or an op that the reference does not support.
FailureOr<StepTrace> traceStep(ModuleOp module, ModuleOp exact,
                               const NamedTensors &inputs,
                               const std::string &directory);

/// Returns the types of the step's arguments by the names that `traceStep`
/// expects.
std::map<std::string, RankedTensorType> getStepInputs(ModuleOp module);

} // namespace mlir::binade

#endif // BINADE_TRACING_TRACE_H
