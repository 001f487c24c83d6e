//===- ValueStatistics.h - the parts that statistics are made of *- C++ -*-===//

#ifndef BINADE_LIB_MONITOR_VALUESTATISTICS_H
#define BINADE_LIB_MONITOR_VALUESTATISTICS_H

#include "WatchedValues.h"
#include "binade/IR/Build.h"

namespace mlir::binade {

/// Builds ops over the elements of one watched value. Equal ops are built again
/// and again: whoever forms kernels makes them one. Sums are those of
/// `binade.reduce_sum`, in a fixed order, of f64.
class ValueStatistics {
public:
  ValueStatistics(ImplicitLocOpBuilder &b, const WatchedValue &watched);

  ImplicitLocOpBuilder &builder() { return b; }
  const WatchedValue &getWatched() const { return watched; }

  /// The elements as f32, with at least one axis, in a shape of their own.
  Value elements();
  /// The same in the shape of the watched value.
  Value exact() { return asElements(watched.value); }
  /// Of `x`, shaped as `elements` are.
  Value magnitudes(Value x);
  /// How many there are.
  double getCount() const { return static_cast<double>(count); }

  /// The sum of `x`; of all elements, an f64 number.
  Value sum(Value x);
  /// The sum of squares of `x`, whose squares are exact.
  Value sumOfSquares(Value x);
  /// How many elements of `truth` hold, an f64 number.
  Value countTrue(Value truth);
  Value largest(Value x);
  /// Whether each element of `x` compares so with `bound`.
  Value compare(Value x, Comparison comparison, double bound);
  /// How many elements are not 0.
  Value countNonzero();

  /// Of numbers.
  Value number(double value);
  Value divide(Value by, Value divisor);
  Value divide(Value by, double divisor) { return divide(by, number(divisor)); }

  /// The format that the value has or, where that is f32, the narrowest that a
  /// reader rounds it to.
  FloatType getFormat() const;
  /// What the first reader that rounds the value makes of it, as f32 and shaped
  /// as `elements` are; null where none does.
  Value rounded();
  /// `x`, of the watched value's shape, as f32 and with at least one axis.
  Value asElements(Value x);

private:
  SmallVector<int64_t> getAxes(Value x) const;

  ImplicitLocOpBuilder &b;
  const WatchedValue &watched;
  int64_t count;
};

} // namespace mlir::binade

#endif // BINADE_LIB_MONITOR_VALUESTATISTICS_H
