//===- RowRegion.h - Regions of ops that rows can tile ----------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_TILING_ROWREGION_H
#define BINADE_LIB_KERNELS_TILING_ROWREGION_H

#include "binade/IR/Binade.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::binade {

/// Returns how `op` treats rows; nothing for ops that cannot be tiled by rows.
std::optional<Rows> getRows(Operation *op);

/// Returns the elements of a splat constant, otherwise null.
SplatElementsAttr getSplatElements(Value value);

/// Ops of a block that are computed together for some rows at a time: those
/// that produce or read a large value, the same for all other values of its
/// size, and the ops between them. Ops that only observe the step stay outside
/// and read all rows when these are complete, so that the step computes the
/// same bits without them.
class RowRegion {
public:
  explicit RowRegion(Value large);

  /// Finds the ops. Returns false if one of them needs all rows at once.
  bool grow() { return addValue(large) && close(); }

  Value getLarge() const { return large; }
  ArrayRef<Operation *> getOps() const { return ops.getArrayRef(); }
  bool contains(Operation *op) const { return op && ops.contains(op); }
  bool isUsedOutside(Value value) const;

  /// Returns the ops between them that only read their results.
  ArrayRef<Operation *> getReaders() const { return readers; }

  /// Returns the greatest common divisor of the sizes of all tiled first axes;
  /// nothing if a value has no axis.
  std::optional<int64_t> getLength() const;

private:
  bool isLarge(Value value) const;
  bool addValue(Value value);
  bool addOp(Operation *op);
  bool close();
  bool isConsistent() const;
  void sort();

  Value large;
  int64_t minElements; ///< Minimum elements of a value that is tiled.
  Block *block;
  SetVector<Operation *> ops;
  DenseSet<Value> inside; ///< Large values.
  SmallVector<Operation *> readers;
};

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_TILING_ROWREGION_H
