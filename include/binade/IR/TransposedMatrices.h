//===- TransposedMatrices.h - Transposes by tiles ---------------*- C++ -*-===//

#ifndef BINADE_IR_TRANSPOSEDMATRICES_H
#define BINADE_IR_TRANSPOSEDMATRICES_H

#include "binade/IR/Movement.h"

namespace mlir::binade {

/// Returns the matrices that `op` transposes, if it is a transpose of elements
/// of 8, 16 or 32 bits, and a GPU kernel can transpose tiles of them in shared
/// memory. Returns none for other ops and for null.
std::optional<Matrices> findTransposedMatrices(Operation *op);

} // namespace mlir::binade

#endif // BINADE_IR_TRANSPOSEDMATRICES_H
