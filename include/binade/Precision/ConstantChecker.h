//===- ConstantChecker.h - Constants that formats exclude -------*- C++ -*-===//

#ifndef BINADE_PRECISION_CONSTANTCHECKER_H
#define BINADE_PRECISION_CONSTANTCHECKER_H

#include "binade/IR/PropagatedConstants.h"
#include "binade/IR/StoredNumbers.h"
#include "binade/Precision/StepEvidence.h"

namespace mlir::binade {

/// Finds the narrow formats that an op must not compute in, because they cannot
/// represent a constant that it reads. Example: 1e-8, which is added before a
/// logarithm, becomes 0 in f16.
class ConstantChecker {
public:
  explicit ConstantChecker(const Policy &policy);

  /// Visits an op of the step. Those that compute its operands must have been
  /// visited.
  void visit(Operation *op);

  /// Returns the formats that cannot represent the constants that reach
  /// `operand`.
  SmallVector<UnsuitableFormat, 1> find(OpOperand &operand);

private:
  const std::optional<StoredNumbers> &read(Value value);

  SmallVector<FloatType> formats;
  std::string directory;
  DenseMap<Value, std::optional<StoredNumbers>> known;
  PropagatedConstants propagated;
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_CONSTANTCHECKER_H
