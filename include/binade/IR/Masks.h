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

/// A constant c that some elements of a value are equal to, or are computed
/// from alone: x + c where x is 0, max(x, c), a selection, padding.
struct PropagatedConstant {
  Value constant;
  OpOperand *use; ///< The operand through which it enters the value.
  /// Maps an element of the constant to an element of the value.
  std::function<double(double)> make;
};

/// Returns the constants that elements of `value` are computed from alone.
SmallVector<PropagatedConstant, 1> findPropagatedConstants(Value value);

} // namespace mlir::binade

#endif // BINADE_IR_MASKS_H
