//===- RowRegion.h - ops that can be done a few rows at a time --*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_TILING_ROWREGION_H
#define BINADE_LIB_KERNELS_TILING_ROWREGION_H

#include "binade/IR/Binade.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::binade {

std::optional<Rows> getRows(Operation *op);

/// The elements of a constant that has one value everywhere; null for others.
SplatElementsAttr getSplatElements(Value value);

/// Ops of a block that are done together, some rows at a time: those around one
/// large value and all others of its size that they make or read, and what
/// stands between them. What only watches the step stays outside: it reads all
/// rows when they have been made, so that the step has the bits that it has
/// when nobody watches.
class RowRegion {
public:
  explicit RowRegion(Value large);

  /// Finds the ops; fails where one of them needs all rows at once.
  bool grow() { return addValue(large) && close(); }

  Value getLarge() const { return large; }
  ArrayRef<Operation *> getOps() const { return ops.getArrayRef(); }
  bool contains(Operation *op) const { return op && ops.contains(op); }
  bool isUsedOutside(Value value) const;

  /// Other ops among them that read what they make.
  ArrayRef<Operation *> getReaders() const { return readers; }

  /// The greatest common divisor of all first axes that are cut; nothing where
  /// something has no axis.
  std::optional<int64_t> getLength() const;

private:
  bool isLarge(Value value) const;
  bool addValue(Value value);
  bool addOp(Operation *op);
  bool close();
  bool isConsistent() const;
  void sort();

  Value large;
  int64_t least; ///< Elements of a value that must not exist whole.
  Block *block;
  SetVector<Operation *> ops;
  DenseSet<Value> inside; ///< Large values.
  SmallVector<Operation *> readers;
};

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_TILING_ROWREGION_H
