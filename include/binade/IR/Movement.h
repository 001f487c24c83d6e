//===- Movement.h - Ops that only move data ---------------------*- C++ -*-===//

#ifndef BINADE_IR_MOVEMENT_H
#define BINADE_IR_MOVEMENT_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Returns the type of `value`, a ranked tensor.
RankedTensorType getTensor(Value value);

int64_t getNumElements(Value value);

/// Returns the size in memory of a value of `type`, a ranked tensor.
uint64_t getByteSize(Type type);

/// Whether `op` is a view of its only operand. Returns false for null.
bool isView(Operation *op);

/// A unit attribute on an op that moves elements: no bytes are moved, and the
/// op is a view. Either users read the elements from the operand's buffer, or
/// the producer of the operand writes them into the result's buffer; plan
/// records have strides for that.
inline constexpr StringLiteral kElidedAttr = "binade.elided";

/// A unit attribute on an op that only kernels read: each of them computes the
/// op itself instead of reading its result from memory.
inline constexpr StringLiteral kRecomputedAttr = "binade.recomputed";

/// Returns the value that `value` is a view of, or `value` itself.
Value findBase(Value value);

/// Whether `op` only moves or reshapes elements of its operand, and is not a
/// `save`. Returns false for null.
bool isMovement(Operation *op);

/// The sizes of a batch of matrices; each size may combine several axes.
struct Matrices {
  int64_t count, rows, columns;
  bool operator==(const Matrices &other) const {
    return count == other.count && rows == other.rows &&
           columns == other.columns;
  }
};

/// Returns the matrices that `op` transposes, if it is a transpose of 8-bit
/// elements and the numbers of rows and columns are multiples of a word's. A
/// GPU kernel can then write the transposed copy next to the original. Returns
/// none for other ops and for null.
std::optional<Matrices> findTransposedCopy(Operation *op);

/// Returns the first op in its block that reads `value`; null if none does.
Operation *findFirstUser(Value value);

} // namespace mlir::binade

#endif // BINADE_IR_MOVEMENT_H
