//===- EmptyTensors.h - Tensors with an axis of length 0 --------*- C++ -*-===//

#ifndef BINADE_IR_EMPTYTENSORS_H
#define BINADE_IR_EMPTYTENSORS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::binade {

/// Whether `type` is a tensor without elements.
bool hasNoElements(Type type);

/// Returns the operands that have elements.
SmallVector<Value> dropEmpty(ValueRange operands);

/// Builds a constant of zeros for each type.
SmallVector<Value> buildZeros(ImplicitLocOpBuilder &b, TypeRange types);

/// Builds the result, of type `type`, of a contraction over an axis of length
/// 0: `bias`, which has one element for each index of `axis`, or zeros if it is
/// null.
Value buildEmptyContraction(ImplicitLocOpBuilder &b, Value bias,
                            RankedTensorType type, int64_t axis);

} // namespace mlir::binade

#endif // BINADE_IR_EMPTYTENSORS_H
