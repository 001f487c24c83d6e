//===- Masks.h - Constants that exclude elements ----------------*- C++ -*-===//

#ifndef BINADE_IR_MASKS_H
#define BINADE_IR_MASKS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Whether `number`, a large element of the constant operand `use`, is a mask:
/// any other number that is larger than all others has the same effect. A mask
/// excludes elements (it is added to scores, selected instead of them or
/// multiplied by an indicator, and a softmax, an attention or a maximum reads
/// the result, in which it is negative), or it is a bound that bounds nothing.
bool isMask(OpOperand &use, double number);

/// A constant c that some elements of a value may be equal to, or follow from
/// alone: x + c where x is 0, max(x, c), a selection, padding.
struct Carried {
  Value constant;
  OpOperand *use; ///< The operand by which it enters the value.
  /// Maps an element of the constant to that of the value.
  std::function<double(double)> make;
};

/// The constants that `value` carries.
SmallVector<Carried, 1> findCarried(Value value);

} // namespace mlir::binade

#endif // BINADE_IR_MASKS_H
