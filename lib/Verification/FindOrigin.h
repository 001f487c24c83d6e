//===- FindOrigin.h - where numbers are lost --------------------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_FINDORIGIN_H
#define BINADE_LIB_VERIFICATION_FINDORIGIN_H

#include "binade/Verification/Trace.h"

namespace mlir::binade {

/// Watches a step for the first value that is not finite though all that it is
/// made of is. A minus infinity, which masks are made of, counts where there is
/// nothing else.
class OriginFinder {
public:
  explicit OriginFinder(const EvaluationOptions &exact) : exact(exact) {}

  void observeArgument(BlockArgument argument, const Tensor &tensor);
  LogicalResult observe(Operation *op, ArrayRef<TensorRef> operands,
                        ArrayRef<TensorRef> results);

  std::optional<NonFiniteOrigin> takeOrigin() {
    return wrong ? std::move(wrong) : std::move(masked);
  }

private:
  TracedValue describe(Value value) const;
  std::vector<TracedValue> followProducers(Operation *op) const;
  std::vector<TracedValue> listReaders(Value value) const;
  FailureOr<NonFiniteOrigin> build(OpResult result,
                                   ArrayRef<TensorRef> operands) const;

  const EvaluationOptions &exact; ///< Without roundings.
  DenseMap<Value, TracedRange> ranges;
  std::optional<NonFiniteOrigin> wrong, masked;
};

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_FINDORIGIN_H
