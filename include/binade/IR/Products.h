//===- Products.h - what products of codes are computed in ------*- C++ -*-===//

#ifndef BINADE_IR_PRODUCTS_H
#define BINADE_IR_PRODUCTS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Whether bf16 holds code times scale: a power of two times few bits.
bool holdsDecoded(QuantizedAttr format);

/// Whether bf16 holds the codes of a whole tensor, whose scale multiplies sums
/// of products instead of factors.
bool holdsCodes(QuantizedAttr format);

/// What matmuls that an op is decomposed into keep of its decision: TF32, which
/// types do not show. Null otherwise.
PrecisionAttr getMultiplied(PrecisionAttr decision);

/// The formats of the codes that an op was decided to multiply, as messages
/// name them: "f8E4M3FN x f8E5M2". Empty where a factor is not to be codes.
std::string describeCodes(PrecisionAttr decision);

/// What an op that was so decided computes in: products of codes that bf16
/// stands for neither way are those of f32.
FloatType getComputed(PrecisionAttr decision);

} // namespace mlir::binade

#endif // BINADE_IR_PRODUCTS_H
