//===- FindRootCause.h - Search for the cause of a NaN ----------*- C++ -*-===//

#ifndef BINADE_LIB_TRACING_FINDROOTCAUSE_H
#define BINADE_LIB_TRACING_FINDROOTCAUSE_H

#include "binade/Tracing/Trace.h"

namespace mlir::binade {

/// Finds the value of a step from which non-finite values come.
///
/// If the loss is not finite, the search follows non-finite operands back from
/// the loss to the first value whose operands are all finite. Otherwise it
/// returns the first non-finite value of the step. Minus infinities count only
/// if nothing else is found, because masks consist of them.
class RootCauseFinder {
public:
  explicit RootCauseFinder(const EvaluationOptions &exact) : exact(exact) {}

  /// Sets the loss. Has to be called before values are observed.
  void setLoss(Value value) { loss = value; }
  void observeArgument(BlockArgument argument, const Tensor &tensor);
  LogicalResult observe(Operation *op, ArrayRef<TensorRef> operands,
                        ArrayRef<TensorRef> results);

  std::optional<NonFiniteOrigin> takeOrigin() {
    if (auto source = sources.find(loss); source != sources.end())
      return std::move(candidates[source->second]);
    return wrong ? std::move(wrong) : std::move(masked);
  }

private:
  TracedValue describe(Value value) const;
  std::vector<TracedValue> followProducers(Operation *op) const;
  std::vector<TracedValue> listReaders(Value value) const;
  FailureOr<NonFiniteOrigin> build(OpResult result,
                                   ArrayRef<TensorRef> operands) const;
  void addCandidate(Value value, NonFiniteOrigin origin) {
    sources[value] = candidates.size();
    candidates.push_back(std::move(origin));
  }
  LogicalResult followForward(OpResult result, ArrayRef<TensorRef> operands);

  const EvaluationOptions &exact; ///< Options without rounding.
  DenseMap<Value, TracedRange> ranges;
  std::optional<NonFiniteOrigin> wrong, masked;
  Value loss;
  std::vector<NonFiniteOrigin> candidates; ///< Origins in the forward pass.
  /// For each non-finite forward value, the index of its origin in
  /// `candidates`.
  DenseMap<Value, size_t> sources;
};

} // namespace mlir::binade

#endif // BINADE_LIB_TRACING_FINDROOTCAUSE_H
