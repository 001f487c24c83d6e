//===- ClampResults.h - Results that overflow stay finite -------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MATERIALIZE_CLAMPRESULTS_H
#define BINADE_LIB_PRECISION_MATERIALIZE_CLAMPRESULTS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Puts the remedy `clamp` between `result` and its readers where its format
/// has less range than f32.
void clampResult(OpResult result, Clamp clamp);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MATERIALIZE_CLAMPRESULTS_H
