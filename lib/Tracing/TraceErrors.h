//===- TraceErrors.h - Rounding errors of each op ---------------*- C++ -*-===//

#ifndef BINADE_LIB_TRACING_TRACEERRORS_H
#define BINADE_LIB_TRACING_TRACEERRORS_H

#include "OpKeys.h"

namespace mlir::binade {

/// The results of an op in the step with the policy.
struct Traced {
  SmallVector<TracedValue> values;
  SmallVector<TensorRef> results;
  /// For an update: parameter and states before it.
  SmallVector<TensorRef> before;
};

/// Observes a step with its policy, then in f64, and compares the results of
/// each op.
class ErrorTracer {
public:
  ErrorTracer(StepTrace &trace, const EvaluationOptions &exact)
      : trace(trace), exact(exact) {}

  void observePolicy(Operation *op, ArrayRef<TensorRef> operands,
                     ArrayRef<TensorRef> results);
  /// Returns `inputs` with the parameters and states of the f64 step `step` as
  /// the policy's step reads them, dequantized and with master weights.
  NamedTensors widen(func::FuncOp step, NamedTensors inputs) const;

  LogicalResult observeExact(Operation *op, ArrayRef<TensorRef> operands,
                             ArrayRef<TensorRef> results);

private:
  /// Returns the same value of the policy's step; null if it has none with the
  /// shape of `like`.
  TensorRef findOfPolicy(Value value, const Tensor &like) const;
  TracedError compare(const Traced &traced, OpResult result,
                      const Tensor &local, const Tensor &expected,
                      const Tensor *before) const;

  StepTrace &trace;
  const EvaluationOptions &exact;
  OpKeys policyKeys, exactKeys;
  std::map<std::string, Traced> ofPolicy;
  DenseMap<Operation *, std::string> names; ///< Keys of ops of the f64 step.
};

} // namespace mlir::binade

#endif // BINADE_LIB_TRACING_TRACEERRORS_H
