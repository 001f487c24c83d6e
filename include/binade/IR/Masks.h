//===- Masks.h - Constants that exclude elements ----------------*- C++ -*-===//

#ifndef BINADE_IR_MASKS_H
#define BINADE_IR_MASKS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Whether a large number at `use` is there to exclude elements, or to bound
/// nothing: any number that is larger than all others does the same. It is
/// added to scores, or chosen instead of them, or multiplied by an indicator,
/// and softmax, attention or a maximum reads the sum, in which it is negative.
/// `number` is the constant.
bool isMask(OpOperand &use, double number);

/// A constant that a value has elements of, or sums with: x + c where x is 0,
/// max(x, c), a choice, what is padded.
struct Carried {
  Value constant;
  OpOperand *use; ///< Where it becomes part of the value.
  /// What the value has of a number of the constant.
  std::function<double(double)> make;
};

/// The constants that `value` carries.
SmallVector<Carried, 1> findCarried(Value value);

/// Whether `use` reads a value that must not be 0: a divisor, what a logarithm
/// is taken of.
bool isSingularAtZero(OpOperand &use);

} // namespace mlir::binade

#endif // BINADE_IR_MASKS_H
