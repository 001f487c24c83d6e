//===- Masks.h - Constants that mask elements -------------------*- C++ -*-===//

#ifndef BINADE_IR_MASKS_H
#define BINADE_IR_MASKS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Whether `number`, a large element of the constant operand `use`, is a mask,
/// so that any other value that is larger than all others has the same effect.
/// A mask excludes elements: it is added to scores, selected instead of them or
/// multiplied by an indicator, and a softmax, an attention or a maximum reads
/// the result, in which it is negative. A bound of `max` or `min` that has no
/// effect is a mask, too.
bool isMask(OpOperand &use, double number);

} // namespace mlir::binade

#endif // BINADE_IR_MASKS_H
