//===- Movement.h - offsets through ops that move elements ------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_MOVEMENT_H
#define BINADE_LIB_CODEGEN_LOOPS_MOVEMENT_H

#include "Offset.h"
#include "mlir/IR/Operation.h"

namespace mlir::binade {

/// Where the first operand of `op` holds the element that the result has at
/// `offset`; nothing where `op` is not a plain movement (reshape, broadcast,
/// transpose, slice).
std::optional<Offset> moveOffset(OffsetSpace &space, Operation *op,
                                 const Offset &offset);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_MOVEMENT_H
