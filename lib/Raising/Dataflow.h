//===- Dataflow.h - Dataflow queries of raising -----------------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_DATAFLOW_H
#define BINADE_LIB_RAISING_DATAFLOW_H

#include "binade/IR/Interface.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::binade {

/// Returns the values that `roots` depend on, including `roots`.
DenseSet<Value> getCone(ValueRange roots);

/// Whether `op` computes each element from the operands' elements at the same
/// index.
bool isElementwise(Operation *op);

/// Whether `value` has one element, or is the broadcast of such a value.
bool isScalar(Value value);

/// Returns the one-element operand of which `value` is a reshape or broadcast;
/// null for other values.
Value getScalarSource(Value value);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_DATAFLOW_H
