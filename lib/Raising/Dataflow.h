//===- Dataflow.h - what depends on what ------------------------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_DATAFLOW_H
#define BINADE_LIB_RAISING_DATAFLOW_H

#include "binade/IR/Interface.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::binade {

/// The values that `roots` depend on, themselves among them.
DenseSet<Value> getCone(ValueRange roots);

/// Whether `op` computes an element from those at the same index alone.
bool isElementwise(Operation *op);

/// Whether `value` has one element, or is such a one copied to a shape.
bool isNumber(Value value);

/// The one-element value that `value` shows under another shape; null where it
/// shows none.
Value getShownNumber(Value value);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_DATAFLOW_H
