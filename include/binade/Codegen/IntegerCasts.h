//===- IntegerCasts.h - Integers to narrow floats ---------------*- C++ -*-===//

#ifndef BINADE_CODEGEN_INTEGERCASTS_H
#define BINADE_CODEGEN_INTEGERCASTS_H

#include "mlir/IR/Operation.h"

namespace mlir::binade {

/// Splits every cast in `root` from an integer to a float of at most 16 bits
/// into a cast to f32 and a cast from f32. The canonicalizer merges these two
/// into one, which rounds differently and for which no target has an
/// instruction.
void splitIntegerCasts(Operation *root);

} // namespace mlir::binade

#endif // BINADE_CODEGEN_INTEGERCASTS_H
