//===- Subgradients.h - Adjoints at kinks -----------------------*- C++ -*-===//

#ifndef BINADE_LIB_IR_OPS_SUBGRADIENTS_H
#define BINADE_LIB_IR_OPS_SUBGRADIENTS_H

#include "binade/IR/Build.h"

namespace mlir::binade {

/// `gradient`, but 0 where `x` equals `value`.
Value zeroWhere(ImplicitLocOpBuilder &b, Value x, double value, Value gradient);

/// Gradients of the operands of `op`, a `max` or a `min`, where an operand that
/// compares to the other as `loses` gets nothing.
SmallVector<Value> buildExtremeAdjoint(ImplicitLocOpBuilder &b, Operation *op,
                                       Value dy, Comparison loses);

/// Whether `x` is, by the ops that make it, a sum of squares, of magnitudes or
/// of powers of them: its root is a norm, a distance or a deviation, which have
/// the gradient 0 at 0.
bool isSumOfMagnitudes(Value x);

/// Whether all that reads `x` bounds it by a constant, as binary cross-entropy
/// does with logarithms: where that holds, no gradient arrives.
bool isBounded(Value x);

/// Whether `x` is a constant none of whose elements is 0.
bool isNonZeroConstant(Value x);

/// Whether `x` is one constant number above 0 and below `end` everywhere.
bool isConstantBetweenZeroAnd(Value x, double end);

} // namespace mlir::binade

#endif // BINADE_LIB_IR_OPS_SUBGRADIENTS_H
