//===- Accumulation.h - Accumulators of matrix units ------------*- C++ -*-===//

#ifndef BINADE_LIB_REFERENCE_ACCUMULATION_H
#define BINADE_LIB_REFERENCE_ACCUMULATION_H

#include "binade/Reference/Reference.h"

namespace mlir::binade {

/// Evaluates a `scaled_matmul` with `accumulation`, whose result has no error.
void evaluateAccumulated(ScaledMatmulOp op, Evaluation &e);

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_ACCUMULATION_H
