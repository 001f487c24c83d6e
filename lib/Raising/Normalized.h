//===- Normalized.h - Matching of normalizations ----------------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_NORMALIZED_H
#define BINADE_LIB_RAISING_NORMALIZED_H

#include "Composites.h"
#include "Views.h"

namespace mlir::binade {

/// Matches (x - mean) / sqrt(variance + epsilon) scale + bias, with the mean
/// and the population variance of x over some axes of the frame, a shape of x;
/// or x / sqrt(mean(x^2) + epsilon) scale, which subtracts no mean.
///
/// The formula is expanded into terms, so that (x - m) r s + b and x (r s) + (b
/// - m (r s)) match equally. Factors are compared as views, so that their
/// shapes do not matter.
class Normalized {
public:
  /// `result` is the last op of the formula, `root` the `sqrt` or `pow`.
  Normalized(Operation *result, Operation *root, bool subtractsMean)
      : composite(result), subtractsMean(subtractsMean), result(result),
        root(root) {}

  bool match();

  /// Returns ops that may be the result of a normalization with `root`: sums
  /// and products that depend on it.
  static SmallVector<Operation *> findResults(Operation *root);

  Operation *getResult() const { return result; }
  ArrayRef<int64_t> getFrame() const { return frame; }
  ArrayRef<int64_t> getAxes() const { return axes; }
  double getEpsilon() const { return epsilon; }
  /// Returns x, whose elements in row-major order are those of the frame.
  Value getX() const { return source; }
  /// Scale and bias; null for 1 and 0.
  const View &getScale() const { return scale; }
  const View &getBias() const { return bias; }

  /// Return the values in the composite that are the mean or the variance, with
  /// one element per index of the other axes, in row-major order.
  SmallVector<Value> getMeans() const { return withReshapes(means); }
  SmallVector<Value> getVariances() const { return withReshapes(variances); }

  Composite composite;
  const bool subtractsMean;

private:
  struct Factor {
    enum Kind { X, Mean, Root, Other } kind;
    View view; ///< For kind `Other` only.
    bool isInverse = false;

    bool operator==(const Factor &other) const {
      return kind == other.kind && view == other.view &&
             isInverse == other.isInverse;
    }
  };
  struct Term {
    bool isNegative = false;
    SmallVector<Factor> factors;
  };
  using Sum = SmallVector<Term>;

  bool matchStatistics();
  bool matchSquare(Value square);
  bool matchCentered(Value value);
  bool matchDeviation(Value value);
  bool matchSum(const Sum &sum);
  Value takeReshaped(Value value);
  bool isOwnMean(const View &view);
  Value takeMean(Value value, ArrayRef<int64_t> &over);
  Value takeSum(Value value, ArrayRef<int64_t> &over);

  Sum expand(const View &view);
  std::optional<Sum> expandOp(Operation *op, const View &view);
  static std::optional<Sum> multiply(const Sum &lhs, const Sum &rhs);
  static std::optional<Sum> invert(Sum sum);
  static bool isOther(const Term &term);
  Sum makeOther(const View &view) const;

  SmallVector<Value> withReshapes(ArrayRef<Value> values) const;

  Operation *result, *root;
  SmallVector<int64_t> frame, axes;
  SmallVector<int64_t> groups; ///< The strides of a statistic over the frame.
  double epsilon = 0.0;
  Value source;
  View x, scale, bias;
  SmallVector<Value> means, variances;
  unsigned steps = 0;
};

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_NORMALIZED_H
