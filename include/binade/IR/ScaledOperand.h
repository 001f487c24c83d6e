//===- ScaledOperand.h - Operands with constant scales ----------*- C++ -*-===//

#ifndef BINADE_IR_SCALEDOPERAND_H
#define BINADE_IR_SCALEDOPERAND_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// An operand of a matmul or a convolution that is multiplied by a constant
/// power of two before it is rounded. The result is divided by the powers of
/// both operands. An entry of `operands` of `#binade.precision`:
///
///   {exponent = 5 : i64, format = f16, rule = "matmul"}
struct ScaledOperand {
  FloatType format;
  int64_t exponent = 0;
  /// What chose the exponent: a rule of the table of unit scaling, or a file of
  /// recorded ranges.
  StringRef rule;
};

/// Exponents are within [-kMaxScaleExponent, kMaxScaleExponent], so that the
/// product of two scales, and its reciprocal, are normal f32.
inline constexpr int64_t kMaxScaleExponent = 60;

/// Whether `op` is a product of two operands that may be scaled: a matmul or a
/// convolution, or a gradient of one.
bool hasScalableOperands(Operation *op);

/// The names of these ops, for messages.
inline constexpr std::array<StringLiteral, 4> kScalableOps = {
    "matmul", "conv", "conv_input_grad", "conv_weight_grad"};

Attribute buildScaledOperand(MLIRContext *context,
                             const ScaledOperand &operand);

/// Returns the entry `index` of the decision; none if it scales nothing.
std::optional<ScaledOperand> getScaledOperand(PrecisionAttr decision,
                                              unsigned index);

/// Whether the decision scales an operand.
bool scalesOperands(PrecisionAttr decision);

/// Returns the decision with plain operands in place of scaled ones.
PrecisionAttr withoutScaledOperands(PrecisionAttr decision);

/// Returns what is wrong with an entry of a decision; empty if nothing is.
std::string explainInvalidScale(DictionaryAttr entry);

/// Returns "f16 * 2^5 (matmul)".
std::string describe(const ScaledOperand &operand);

} // namespace mlir::binade

#endif // BINADE_IR_SCALEDOPERAND_H
