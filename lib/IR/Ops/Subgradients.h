//===- Subgradients.h - Adjoints at kinks -----------------------*- C++ -*-===//

#ifndef BINADE_LIB_IR_OPS_SUBGRADIENTS_H
#define BINADE_LIB_IR_OPS_SUBGRADIENTS_H

#include "binade/IR/Build.h"

namespace mlir::binade {

/// Returns `gradient`, with 0 where `x` equals `value`.
Value zeroWhere(ImplicitLocOpBuilder &b, Value x, double value, Value gradient);

/// Builds the gradients of the operands of `op`, a `max` or `min`. An operand
/// for which the comparison `loses` with the other holds gets 0.
SmallVector<Value> buildExtremeAdjoint(ImplicitLocOpBuilder &b, Operation *op,
                                       Value dy, Comparison loses);

/// Whether `x` is computed as a sum of squares, of magnitudes or of powers of
/// them. Its root is then a norm, a distance or a deviation, which have
/// gradient 0 at 0.
bool isSumOfMagnitudes(Value x);

/// Whether all users of `x` bound it by a constant, as binary cross-entropy
/// does with logarithms. Where the bound holds, the gradient is 0.
bool isBounded(Value x);

/// Whether `x` is a constant without elements that are 0.
bool isNonZeroConstant(Value x);

/// Whether `x` is a splat constant above 0 and below `end`.
bool isConstantBetweenZeroAnd(Value x, double end);

} // namespace mlir::binade

#endif // BINADE_LIB_IR_OPS_SUBGRADIENTS_H
