//===- ScaleOperands.h - Operands with constant scales ----------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MATERIALIZE_SCALEOPERANDS_H
#define BINADE_LIB_PRECISION_MATERIALIZE_SCALEOPERANDS_H

#include "binade/IR/Interface.h"
#include "binade/IR/ScaledOperand.h"

namespace mlir::binade {

/// Multiplies operands of matmuls and convolutions by constant powers of two
/// before they are rounded, and divides results by them. A value is scaled and
/// rounded once per format, right after its definition; if the backward pass
/// reads it, the rounded value is saved. Elements beyond the largest finite
/// value of an 8-bit format become that value.
class OperandScaler {
public:
  explicit OperandScaler(ImplicitLocOpBuilder &b) : b(b) {}

  /// Makes `operand` read the scaled and rounded value, in the format
  /// `compute`.
  void read(OpOperand &operand, const ScaledOperand &scaled, FloatType compute);

  /// Makes `operand`, which is added to the scaled product, read its multiple.
  void readSummand(OpOperand &operand, int64_t exponent);

  /// Multiplies `result` by 2^exponent for all of its readers.
  void unscale(OpResult result, int64_t exponent);

private:
  Value multiply(Value x, int64_t exponent, Phase phase);
  Value round(Value source, const ScaledOperand &scaled);

  ImplicitLocOpBuilder &b;
  DenseMap<std::tuple<Value, Type, int64_t>, Value> rounded;
  /// The saved copy of each rounded value.
  DenseMap<Value, Value> saves;
};

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MATERIALIZE_SCALEOPERANDS_H
