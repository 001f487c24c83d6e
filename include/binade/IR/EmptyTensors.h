//===- EmptyTensors.h - tensors with an axis of length 0 --------*- C++ -*-===//

#ifndef BINADE_IR_EMPTYTENSORS_H
#define BINADE_IR_EMPTYTENSORS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::binade {

/// Whether `type` is a tensor without elements.
bool hasNoElements(Type type);

/// The operands that have elements.
SmallVector<Value> dropEmpty(ValueRange operands);

/// A constant of zeros of each type.
SmallVector<Value> buildZeros(ImplicitLocOpBuilder &b, TypeRange types);

/// A contraction over no element, of type `type`: `bias`, which has an entry
/// for each of `axis`, or zeros where it is null.
Value buildEmptyContraction(ImplicitLocOpBuilder &b, Value bias,
                            RankedTensorType type, int64_t axis);

} // namespace mlir::binade

#endif // BINADE_IR_EMPTYTENSORS_H
