//===- ReadsNeighbors.h - Ops that read other elements ----------*- C++ -*-===//

#ifndef BINADE_IR_READSNEIGHBORS_H
#define BINADE_IR_READSNEIGHBORS_H

#include "mlir/IR/OpDefinition.h"

namespace mlir::binade {

/// Elements of the result depend on several elements of an operand. Kernels
/// that compute such an operand do not compute the op with it, because they
/// might compute each element of the operand several times.
template <typename ConcreteOp>
class ReadsNeighbors : public OpTrait::TraitBase<ConcreteOp, ReadsNeighbors> {};

} // namespace mlir::binade

#endif // BINADE_IR_READSNEIGHBORS_H
