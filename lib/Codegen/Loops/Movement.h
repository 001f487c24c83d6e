//===- Movement.h - Offsets through ops that move elements ------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_MOVEMENT_H
#define BINADE_LIB_CODEGEN_LOOPS_MOVEMENT_H

#include "Offset.h"
#include "mlir/IR/Operation.h"

namespace mlir::binade {

/// Returns the offset in the first operand of `op` of the element that the
/// result has at `offset`. Returns nothing unless `op` is a reshape, broadcast,
/// transpose or slice.
std::optional<Offset> moveOffset(OffsetSpace &space, Operation *op,
                                 const Offset &offset);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_MOVEMENT_H
