//===- StepEvidence.h - Recorded ranges of a step ---------------*- C++ -*-===//

#ifndef BINADE_PRECISION_STEPEVIDENCE_H
#define BINADE_PRECISION_STEPEVIDENCE_H

#include "binade/Precision/Policy.h"

namespace mlir::binade {

/// What a run saw of a value, and what a format would have done to it.
struct FormatEvidence {
  FloatType format;
  const RecordedRange *range;
  /// Of the loss, for gradients: the one that dynamic scaling starts from,
  /// lowered until no recorded gradient overflows.
  double scale = 1.0;
  /// Shares of the elements.
  double underflow = 0.0, overflow = 0.0;
};

/// A narrow format that a recorded value does not fit into, and why, in words.
/// These are interned.
struct UnsuitableFormat {
  FloatType format;
  StringRef reason;
};

/// The evidence of a policy, by the values of a step.
class StepEvidence {
public:
  StepEvidence(func::FuncOp step, const Policy &policy);

  /// What was recorded of `value`, for each narrow format of the policy.
  SmallVector<FormatEvidence, 1> find(Value value) const;

  /// Of the loss: the policy's, lowered until no recorded gradient overflows
  /// where it may change.
  double getLossScale() const { return lossScale; }

  /// Into which of them it does not fit.
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
