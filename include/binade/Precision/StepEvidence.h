//===- StepEvidence.h - Recorded ranges of a step ---------------*- C++ -*-===//

#ifndef BINADE_PRECISION_STEPEVIDENCE_H
#define BINADE_PRECISION_STEPEVIDENCE_H

#include "binade/Precision/Policy.h"

namespace mlir::binade {

/// A recorded value, and what a format would do to it.
struct FormatEvidence {
  FloatType format;
  const RecordedRange *range;
  /// The loss scale, for gradients: the initial scale of dynamic scaling,
  /// lowered until no recorded gradient overflows.
  double scale = 1.0;
  /// Fractions of the elements.
  double underflow = 0.0, overflow = 0.0;
};

/// A narrow format that cannot represent a value, and the reason. Reasons are
/// interned.
struct UnsuitableFormat {
  FloatType format;
  StringRef reason;
};

/// The recorded ranges of a policy, by the values of a step.
class StepEvidence {
public:
  StepEvidence(func::FuncOp step, const Policy &policy);

  /// Returns what was recorded of `value`, for each narrow format of the
  /// policy.
  SmallVector<FormatEvidence, 1> find(Value value) const;

  /// Returns what was recorded of `value`; null if nothing was.
  const RecordedRange *lookup(Value value) const {
    return ranges.lookup(value);
  }

  /// Returns the loss scale: the policy's; if it is dynamic, lowered until no
  /// recorded gradient overflows.
  double getLossScale() const { return lossScale; }

  /// Returns the narrow formats that cannot represent the recorded range of
  /// `value`.
  ArrayRef<UnsuitableFormat> findUnsuitable(Value value);

private:
  double findLossScale() const;
  StringRef explainUnsuitable(Value value, const FormatEvidence &seen) const;

  const Policy &policy;
  DenseMap<Value, const RecordedRange *> ranges;
  double lossScale = 1.0;
  DenseMap<Value, SmallVector<UnsuitableFormat, 0>> unsuitable;
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_STEPEVIDENCE_H
