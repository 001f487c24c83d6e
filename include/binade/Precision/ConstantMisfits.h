//===- ConstantMisfits.h - Constants that a format lacks --------*- C++ -*-===//

#ifndef BINADE_PRECISION_CONSTANTMISFITS_H
#define BINADE_PRECISION_CONSTANTMISFITS_H

#include "binade/IR/StoredNumbers.h"
#include "binade/Precision/StepEvidence.h"

namespace mlir::binade {

/// The narrow formats that an operand keeps its op out of, because they do not
/// hold the constant that it reads: 1e-8, which is added before a logarithm,
/// would be 0.
class ConstantMisfits {
public:
  explicit ConstantMisfits(const Policy &policy);

  SmallVector<Misfit, 1> find(OpOperand &operand);

private:
  const std::optional<StoredNumbers> &read(Value value);

  SmallVector<FloatType> formats;
  std::string directory;
  DenseMap<Value, std::optional<StoredNumbers>> known;
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_CONSTANTMISFITS_H
