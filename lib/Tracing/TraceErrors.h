//===- TraceErrors.h - what each op's format costs --------------*- C++ -*-===//

#ifndef BINADE_LIB_TRACING_TRACEERRORS_H
#define BINADE_LIB_TRACING_TRACEERRORS_H

#include "OpKeys.h"

namespace mlir::binade {

/// What the step under its policy made of each op.
struct Traced {
  SmallVector<TracedValue> values;
  SmallVector<TensorRef> results;
  SmallVector<TensorRef> before; ///< What an update read of what it writes.
};

/// Sees a step under its policy, then in f64, and compares what they make of
/// each op.
class ErrorTracer {
public:
  ErrorTracer(StepTrace &trace, const EvaluationOptions &exact)
      : trace(trace), exact(exact) {}

  void observePolicy(Operation *op, ArrayRef<TensorRef> operands,
                     ArrayRef<TensorRef> results);
  /// `inputs` with the parameters and states of `step`, which is exact, as
  /// numbers of f32.
  NamedTensors widen(func::FuncOp step, NamedTensors inputs) const;

  LogicalResult observeExact(Operation *op, ArrayRef<TensorRef> operands,
                             ArrayRef<TensorRef> results);

private:
  /// The same value under the policy; null where there is none of its shape.
  TensorRef findOfPolicy(Value value, const Tensor &like) const;
  TracedError compare(const Traced &traced, OpResult result,
                      const Tensor &local, const Tensor &expected,
                      const Tensor *before) const;

  StepTrace &trace;
  const EvaluationOptions &exact;
  OpKeys policyKeys, exactKeys;
  std::map<std::string, Traced> ofPolicy;
  DenseMap<Operation *, std::string> names; ///< Of ops of the exact step.
};

} // namespace mlir::binade

#endif // BINADE_LIB_TRACING_TRACEERRORS_H
