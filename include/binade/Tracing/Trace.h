//===- Trace.h - a step op by op, in its formats and in f64 -----*- C++ -*-===//
//
// The reference computes a step as its policy has it. What first leaves the
// numbers is found on the way; and each op is computed in f64 besides, once on
// what it read under the policy and once in a step that is f64 from its
// beginning. The first difference is the error that the op's format introduces,
// the second what it inherits.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_TRACING_TRACE_H
#define BINADE_TRACING_TRACE_H

#include "binade/Reference/Interpreter.h"

namespace mlir::binade {

/// What the elements of a value are like; magnitudes of finite ones.
struct TracedRange {
  int64_t elements = 0, zeros = 0;
  /// NaN and plus infinity, which no mask is made of.
  int64_t wrong = 0;
  int64_t minusInfinite = 0;
  double smallest = 0; ///< That is not 0; 0 where there is none.
  double largest = 0;
};

/// A value of the step, with what made it: an op, or the caller.
struct TracedValue {
  std::string kind; ///< Of the op without the dialect, or the argument's role.
  std::string node; ///< Or the name of a parameter, state or batch input.
  Phase phase = Phase::Forward;
  std::string format;   ///< Of the elements as they are stored.
  double limit = 0;     ///< The largest finite number of the format.
  std::string decision; ///< As `describe` says it; empty where none was made.
  std::string rule;     ///< That decided.
  /// Format of the op's sums of products, as its decision says; empty for
  /// others. They are exact in a trace.
  std::string sums;
  TracedRange range;
};

/// Where numbers were last what they should be.
struct NonFiniteOrigin {
  TracedValue value;
  /// The largest magnitude that the op makes of what it read in f64; 0 for
  /// arguments.
  double exact = 0;
  std::vector<TracedValue> operands = {};
  /// What led to the largest operand, the nearest first.
  std::vector<TracedValue> producers = {};
  /// Ops that read the value and have a decision.
  std::vector<TracedValue> readers = {};
};

/// What one result of an op lost. Errors are Euclidean norms; they leave out
/// elements that are not finite on a side.
struct TracedError {
  TracedValue value;
  /// Number of the result; that of an update is the change of the parameter.
  unsigned result = 0;
  double signal = 0; ///< Norm of the result in f64.
  double local = 0;  ///< The same on what the op read under the policy.
  double error = 0, introduced = 0, inherited = 0;
  /// Elements that became 0, or not finite, though they are not in f64.
  int64_t underflow = 0, overflow = 0;
  /// Elements that are 0 but are not 0 in the f64 step: they underflowed here
  /// or earlier, for example in a constant.
  int64_t vanished = 0;
};

struct StepTrace {
  double loss = 0;
  std::optional<NonFiniteOrigin> origin;
  std::optional<double> exactLoss;
  std::vector<TracedError> errors; ///< In the order of the step.
  /// Results that the step has in f64 alone.
  int64_t unmatched = 0;
};

/// A copy of `module`, which phase `assign` left, without decisions: all is
/// f32.
OwningOpRef<ModuleOp> makeExactTwin(ModuleOp module);

/// Computes `@step` of `module` on `inputs`, which are named "role/name" and
/// may be more than it reads; and that of `exact` in f64, unless it is null.
/// Both have their types, as phase `programs` leaves them. Errors, at the
/// function: a missing input, an op without a meaning in the reference.
FailureOr<StepTrace> traceStep(ModuleOp module, ModuleOp exact,
                               const NamedTensors &inputs,
                               const std::string &directory);

/// What `traceStep` calls the arguments of the step of `module`, and their
/// types.
std::map<std::string, RankedTensorType> getStepInputs(ModuleOp module);

} // namespace mlir::binade

#endif // BINADE_TRACING_TRACE_H
