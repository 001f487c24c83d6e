//===- Evidence.h - Ranges of values recorded by a run ----------*- C++ -*-===//

#ifndef BINADE_PRECISION_EVIDENCE_H
#define BINADE_PRECISION_EVIDENCE_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::binade {

/// Statistics of the elements of a value over the recorded steps of a run. For
/// gradients: before the loss scale.
struct RecordedRange {
  int64_t count = 0, zeros = 0, nonFinite = 0;
  /// The largest finite magnitude, and the smallest one that is not 0.
  double amax = 0, smallest = 0;
  /// The number of elements in [2^e, 2^(e + 1)) for each e.
  std::vector<std::pair<int, int64_t>> exponents;

  /// Returns the fraction of the nonzero elements that `format` rounds to 0
  /// after a multiplication by `scale`, a power of two. Elements of exactly
  /// half the smallest magnitude also become 0, but are not counted: the
  /// histogram does not tell them from larger elements of the same exponent.
  double getUnderflow(FloatType format, double scale = 1.0) const;
  /// Returns the fraction of the elements that `format` rounds to infinity
  /// after the multiplication by `scale`, or that were not finite. Of the
  /// elements with the exponent of the format's largest value, one is counted
  /// if `amax` becomes infinite; the histogram does not say how many others do.
  double getOverflow(FloatType format, double scale = 1.0) const;
  /// Returns the root mean square of the elements that are not 0, within a few
  /// percent; 0 for none.
  double getRms() const;
};

/// Fractions up to which a value may be narrow.
struct EvidenceLimits {
  double underflow = 0.01, overflow = 0.0;
};

/// The ranges of the values of a run, by the names that `nameValues` gives.
struct Evidence {
  /// The name in reports: the file name without its directory.
  std::string name;
  llvm::StringMap<RecordedRange> ranges;
};

/// Reads a file that `binade train --record ranges=FILE` wrote. Emits an error
/// with the file's name if it cannot.
FailureOr<Evidence> readEvidence(StringRef file, MLIRContext *context);

} // namespace mlir::binade

#endif // BINADE_PRECISION_EVIDENCE_H
