//===- ValueStatistics.h - Building blocks of statistics --------*- C++ -*-===//

#ifndef BINADE_LIB_MONITOR_VALUESTATISTICS_H
#define BINADE_LIB_MONITOR_VALUESTATISTICS_H

#include "WatchedValues.h"
#include "binade/IR/Build.h"

namespace mlir::binade {

/// Builds ops on the elements of one watched value. Builds equal ops
/// repeatedly; kernel formation deduplicates them. Sums are `binade.reduce_sum`
/// in f64, in a fixed order.
class ValueStatistics {
public:
  ValueStatistics(ImplicitLocOpBuilder &b, const WatchedValue &watched);

  /// Ops that are built while it exists belong to `phase` instead of the phase
  /// of the watched value.
  class PhaseScope {
  public:
    PhaseScope(ValueStatistics &s, Phase phase);
    ~PhaseScope();
    PhaseScope(const PhaseScope &) = delete;
    PhaseScope &operator=(const PhaseScope &) = delete;

  private:
    ValueStatistics &s;
    Phase phase;
    Operation *before; ///< The op before those of the scope; null for none.
  };

  ImplicitLocOpBuilder &builder() { return b; }
  const WatchedValue &getWatched() const { return watched; }

  /// Returns the elements as f32, with at least one axis; the shape may differ
  /// from the value's.
  Value elements();
  /// Returns the elements in the shape of the watched value.
  Value exact() { return asElements(watched.value); }
  /// Returns the factor by which elements are multiplied, such as 1 / loss
  /// scale, an f32 scalar; null for none.
  Value factor();
  /// Returns the magnitudes of `x`, which has the shape of `elements`.
  Value magnitudes(Value x);
  /// Returns the number of elements.
  double getCount() const { return static_cast<double>(count); }

  /// Returns the sum of all elements of `x`, an f64 scalar.
  Value sum(Value x);
  /// Returns the sum of squares of `x`; the squares are exact.
  Value sumOfSquares(Value x);
  /// Returns the number of true elements of `truth`, an f64 scalar.
  Value countTrue(Value truth);
  Value largest(Value x);
  /// Compares each element of `x` with `bound`.
  Value compare(Value x, Comparison comparison, double bound);
  /// Returns the number of elements that are not 0.
  Value countNonzero();

  /// Builds scalars.
  Value number(double value);
  Value divide(Value by, Value divisor);
  Value divide(Value by, double divisor) { return divide(by, number(divisor)); }

  /// Returns the format of the value, or, if that is f32, the narrowest format
  /// to which a reader rounds it.
  FloatType getFormat() const;
  /// Returns the result of the first reader that rounds the value, as f32 in
  /// the shape of the watched value; null if no reader does.
  Value rounded();
  /// Converts `x`, of the watched value's shape, to f32 with at least one axis.
  Value asElements(Value x);

  /// Returns the phase of an op that was built in a `PhaseScope`; nothing for
  /// other ops, which have the phase of the watched value.
  std::optional<Phase> getPhaseOf(Operation *op) const {
    auto found = phases.find(op);
    return found == phases.end() ? std::nullopt : std::optional(found->second);
  }

private:
  SmallVector<int64_t> getAxes(Value x) const;

  ImplicitLocOpBuilder &b;
  const WatchedValue &watched;
  int64_t count;
  llvm::DenseMap<Operation *, Phase> phases;
};

} // namespace mlir::binade

#endif // BINADE_LIB_MONITOR_VALUESTATISTICS_H
