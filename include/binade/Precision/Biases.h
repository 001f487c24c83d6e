//===- Biases.h - Formats of the biases of contractions ---------*- C++ -*-===//

#ifndef BINADE_PRECISION_BIASES_H
#define BINADE_PRECISION_BIASES_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Whether operand `index` of `op` is a bias: what a contraction of two
/// operands adds to their products.
bool isBias(PrecisionOpInterface op, unsigned index);

/// Returns the format to which a contraction with `decision` rounds its bias;
/// null if the bias stays in f32.
FloatType getBiasFormat(PrecisionAttr decision);

/// Returns the format in which an op with `decision` reads operand `index`,
/// whose role is `wide`: f32 for all but a bias that the decision rounds.
FloatType getWideFormat(PrecisionAttr decision, unsigned index);

} // namespace mlir::binade

#endif // BINADE_PRECISION_BIASES_H
