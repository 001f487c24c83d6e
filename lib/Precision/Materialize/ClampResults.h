//===- ClampResults.h - Clamping of results that overflow -------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MATERIALIZE_CLAMPRESULTS_H
#define BINADE_LIB_PRECISION_MATERIALIZE_CLAMPRESULTS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Inserts the ops that `clamp` asks for between `result` and its readers. Does
/// nothing if the format of `result` has the range of f32.
void clampResult(OpResult result, Clamp clamp);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MATERIALIZE_CLAMPRESULTS_H
