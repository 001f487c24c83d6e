//===- Normalized.h - Matching x over its deviation -------------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_NORMALIZED_H
#define BINADE_LIB_RAISING_NORMALIZED_H

#include "Composites.h"
#include "Views.h"

namespace mlir::binade {

/// (x - mean) / sqrt(variance + epsilon) scale + bias, with the mean and the
/// population variance of x over some axes of a shape of x, the frame; or
/// x / sqrt(mean(x^2) + epsilon) scale, which subtracts no mean.
///
/// It is matched as a sum of products, so that (x - m) r s + b and
/// x (r s) + (b - m (r s)) are the same, and by views, so that it does not
/// matter in which shapes its factors are.
class Normalized {
public:
  /// `result` is the last op, `root` one of `sqrt` or `pow` on the way to it.
  Normalized(Operation *result, Operation *root, bool subtractsMean)
      : composite(result), subtractsMean(subtractsMean), result(result),
        root(root) {}

  bool match();

  /// Ops from which `root` may be the root: what sums and products make of it.
  static SmallVector<Operation *> findResults(Operation *root);

  Operation *getResult() const { return result; }
  ArrayRef<int64_t> getFrame() const { return frame; }
  ArrayRef<int64_t> getAxes() const { return axes; }
  double getEpsilon() const { return epsilon; }
  /// Has the elements of the frame, in its order.
  Value getX() const { return source; }
  /// Null for 1 and 0.
  const View &getScale() const { return scale; }
  const View &getBias() const { return bias; }

  /// The values inside that are the mean, one number for each place beside the
  /// axes in row-major order; and the same for the variance.
  SmallVector<Value> getMeans() const { return getAlike(means); }
  SmallVector<Value> getVariances() const { return getAlike(variances); }

  Composite composite;
  const bool subtractsMean;

private:
  struct Factor {
    enum Kind { X, Mean, Root, Other } kind;
    View view; ///< Of others.
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

  SmallVector<Value> getAlike(ArrayRef<Value> values) const;

  Operation *result, *root;
  SmallVector<int64_t> frame, axes;
  SmallVector<int64_t> groups; ///< Strides of a statistic over the frame.
  double epsilon = 0.0;
  Value source;
  View x, scale, bias;
  SmallVector<Value> means, variances;
  unsigned steps = 0;
};

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_NORMALIZED_H
