//===- QuantizedOperands.h - Formats of quantized contractions --*- C++ -*-===//

#ifndef BINADE_IR_QUANTIZEDOPERANDS_H
#define BINADE_IR_QUANTIZEDOPERANDS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Whether bf16 can represent elements of `format` times their scale: the scale
/// is a power of two, or has few bits like the elements. The scale of a whole
/// tensor above those of blocks is not included; it can multiply the sums.
bool canRepresentDequantized(QuantizedAttr format);

/// Whether bf16 can represent the quantized elements of `format`, so that the
/// scale of the whole tensor can multiply the sums instead of the elements.
bool canRepresentQuantized(QuantizedAttr format);

/// Returns `format` with scales along the axis that is summed for `operand`.
QuantizedAttr orientScales(OpOperand &operand, QuantizedAttr format);

/// Returns why the two operands that `op` multiplies cannot be transformed in
/// groups of `size` elements of the summed axis: "sums over 24 elements ...";
/// empty if they can.
std::string explainUntransformable(PrecisionOpInterface op, int64_t size);

/// Returns the decision for the matmuls into which an op is decomposed: TF32,
/// which types do not show. Null for other formats.
PrecisionAttr getMultiplied(PrecisionAttr decision);

/// Returns the name of the element format, for messages.
std::string describeElement(QuantizedAttr format);

/// Returns the formats of the quantized operands of a contraction, for
/// messages: "f8E4M3FN x f8E5M2". Empty unless the decision quantizes both
/// operands.
std::string describeQuantizedOperands(PrecisionAttr decision);

/// Returns the format in which a contraction with `decision` computes: f32 if
/// bf16 can represent neither its quantized nor its dequantized operands.
FloatType getComputed(PrecisionAttr decision);

/// Swaps the last two axes of `value`, elements or scales of an operand.
Value swapLastAxes(ImplicitLocOpBuilder &b, Value value);

} // namespace mlir::binade

#endif // BINADE_IR_QUANTIZEDOPERANDS_H
