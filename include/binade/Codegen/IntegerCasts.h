//===- IntegerCasts.h - integers to narrow floats ---------------*- C++ -*-===//

#ifndef BINADE_CODEGEN_INTEGERCASTS_H
#define BINADE_CODEGEN_INTEGERCASTS_H

#include "mlir/IR/Operation.h"

namespace mlir::binade {

/// Makes casts of integers to floats of 16 bits and fewer, in `root`, two
/// again: to f32, and from there. The canonicalizer makes one of them, which
/// rounds otherwise, and for which no target has an instruction.
void splitIntegerCasts(Operation *root);

} // namespace mlir::binade

#endif // BINADE_CODEGEN_INTEGERCASTS_H
