//===- Positions.h - Elements at given positions of an axis -----*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_POSITIONS_H
#define BINADE_LIB_CODEGEN_LOOPS_POSITIONS_H

#include "Emitter.h"

namespace mlir::binade {

/// Returns the distance between the lanes of an offset: 0 if all are equal, 1
/// if they are contiguous, and another value if the distance varies.
int64_t getLaneStride(const Offset &offset);

/// Returns the position along the axis of `iota` of the element at `offset`.
Offset getPosition(OffsetSpace &space, IotaOp iota, const Offset &offset);

/// Returns whether the position along an axis of each lane equals an integer,
/// if `op` compares these and the lanes are adjacent.
std::optional<Element> comparePosition(Emitter &e, Operation *op,
                                       const Offset &offset);

/// A sum over the last axis of the elements of `x` whose position on this axis
/// is that of `indices`: one element, or 0 if the index is out of range. A load
/// replaces the reduction.
struct IndexedElement {
  Operation *op; ///< The sum.
  Value indices; ///< Has the shape of the sum.
  Value x;

  static std::optional<IndexedElement> from(Operation *op);
  /// Returns the sum at `offset`.
  Element compute(Emitter &e, const Offset &offset) const;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_POSITIONS_H
