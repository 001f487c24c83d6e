//===- Exponentials.h - Sums of exponentials of a row -----------*- C++ -*-===//

#ifndef BINADE_LIB_REFERENCE_EXPONENTIALS_H
#define BINADE_LIB_REFERENCE_EXPONENTIALS_H

#include "binade/Reference/Reference.h"

namespace mlir::binade {

/// The sum of the exponentials of a row: its logarithm is max + log(total).
struct Exponentials {
  double max = -INFINITY, total = 0.0;
  double error = 0.0; ///< Relative error of `total`, in units of the roundoff.

  /// `errors` are the absolute errors of the row in units of the roundoff, if
  /// the row itself was computed.
  explicit Exponentials(ArrayRef<double> row, ArrayRef<double> errors = {}) {
    for (double x : row)
      max = std::isnan(x) || x > max ? x : max;
    double spread = 0.0;
    for (auto [i, x] : llvm::enumerate(row)) {
      double e = std::exp(x - max);
      total += e;
      if (e != 0.0)
        spread += e * (max - x + (errors.empty() ? 0.0 : errors[i]));
    }
    // Differences to the maximum are rounded before exponentiation.
    error = spread / total + getSumConstant(row.size()) + 4.0;
  }

  double getLogarithm() const { return max + std::log(total); }
  /// Returns an absolute error in units of the roundoff.
  double getLogarithmError() const {
    return error + 6.0 * std::fabs(std::log(total)) + std::fabs(getLogarithm());
  }
};

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_EXPONENTIALS_H
