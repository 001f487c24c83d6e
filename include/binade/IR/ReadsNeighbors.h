//===- ReadsNeighbors.h - Ops that read other elements ----------*- C++ -*-===//

#ifndef BINADE_IR_READSNEIGHBORS_H
#define BINADE_IR_READSNEIGHBORS_H

#include "mlir/IR/OpDefinition.h"

namespace mlir::binade {

/// Elements of the result depend on several elements of an operand. The op is
/// not fused with the ops that compute this operand, because the kernel might
/// compute elements of it several times.
template <typename ConcreteOp>
class ReadsNeighbors : public OpTrait::TraitBase<ConcreteOp, ReadsNeighbors> {};

} // namespace mlir::binade

#endif // BINADE_IR_READSNEIGHBORS_H
