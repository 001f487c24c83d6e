//===- Evidence.h - what a run saw of the values of a step ------*- C++ -*-===//

#ifndef BINADE_PRECISION_EVIDENCE_H
#define BINADE_PRECISION_EVIDENCE_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::binade {

/// What the elements of a value were like in the recorded steps of a run; those
/// of gradients before the loss was scaled.
struct RecordedRange {
  int64_t count = 0, zeros = 0, nonFinite = 0;
  /// Magnitudes: the largest finite one, and the smallest that is not 0.
  double amax = 0, smallest = 0;
  /// How many elements lie in [2^e, 2^(e + 1)), by e.
  std::vector<std::pair<int, int64_t>> exponents;

  /// Which share of the elements that are not 0 `format` rounds to 0 when they
  /// are multiplied by `scale`, a power of two. Elements of exactly half the
  /// smallest magnitude, which become 0 as well, are not counted: the range
  /// does not know them.
  double getUnderflow(FloatType format, double scale = 1.0) const;
  /// Which share `format` rounds to infinity then, or was not finite. Of those
  /// with the exponent of the largest finite number at least one is counted
  /// where `amax` becomes infinite: the range does not know the others.
  double getOverflow(FloatType format, double scale = 1.0) const;
};

/// Shares up to which a value may be narrow.
struct EvidenceLimits {
  double underflow = 0.01, overflow = 0.0;
};

/// The ranges of the values of a run, by the names that `nameValues` gives.
struct Evidence {
  /// As reports name it: the file without its folder.
  std::string name;
  llvm::StringMap<RecordedRange> ranges;
};

/// Reads what `binade train --record ranges=FILE` wrote.
FailureOr<Evidence> readEvidence(StringRef file, MLIRContext *context);

} // namespace mlir::binade

#endif // BINADE_PRECISION_EVIDENCE_H
