//===- Movement.h - ops that compute nothing --------------------*- C++ -*-===//

#ifndef BINADE_IR_MOVEMENT_H
#define BINADE_IR_MOVEMENT_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// The type of `value`, a ranked tensor.
RankedTensorType getTensor(Value value);

int64_t getNumElements(Value value);

/// Bytes of a value of `type`, a ranked tensor, in memory.
uint64_t getByteSize(Type type);

/// Whether `op` shows the bytes of its operand as they are. Null is no view.
bool isView(Operation *op);

/// On an op that moves elements, a unit: nothing is moved. Who reads the result
/// finds its elements where those of the operand are, or who writes the operand
/// puts them where those of the result belong; records have strides for it. The
/// op is then a view.
inline constexpr StringLiteral kElidedAttr = "binade.elided";

/// What `value` is a view of, or `value` itself.
Value findBase(Value value);

/// Whether `op` has the elements of its operands, or some, in another place or
/// shape, and is not there to keep them. Null does not move.
bool isMovement(Operation *op);

/// Matrices one after the other, of axes that stay together.
struct Matrices {
  int64_t count, rows, columns;
  bool operator==(const Matrices &other) const {
    return count == other.count && rows == other.rows &&
           columns == other.columns;
  }
};

/// What `op` swaps rows and columns of, if it is a transpose of codes of a byte
/// whose rows and columns divide into words: a kernel of a GPU can write those
/// beside the codes as they are. Null swaps nothing.
std::optional<Matrices> findTransposedCopy(Operation *op);

/// The first op in its block that reads `value`; null if none does.
Operation *findFirstUser(Value value);

} // namespace mlir::binade

#endif // BINADE_IR_MOVEMENT_H
