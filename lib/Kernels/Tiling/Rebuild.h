//===- Rebuild.h - Forward values computed again ----------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_TILING_REBUILD_H
#define BINADE_LIB_KERNELS_TILING_REBUILD_H

#include "binade/IR/Binade.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::binade {

/// Ops of the backward pass that compute a saved value again, bit for bit: by
/// the elementwise ops and lookups of the forward pass. They read arguments,
/// constants and other saved values. Of a norm whose statistics are saved, only
/// the elementwise part is computed.
class Rebuilt {
public:
  /// Builds the ops before `before`, the first op that reads `save`. `saves`
  /// has the `save` of each forward value.
  Rebuilt(SaveOp save, const DenseMap<Value, SaveOp> &saves, Operation *before);

  /// Returns the value; null if it cannot be computed this way, in which case
  /// no op was built.
  Value getValue() const { return value; }
  /// Returns the saved values and arguments that the ops read.
  ArrayRef<Value> getSources() const { return sources.getArrayRef(); }
  /// Whether a single elementwise op computes the value, from what is saved.
  bool isOneOp() const;
  /// Returns the views at the end of the ops.
  ArrayRef<Operation *> getViews() const;
  bool contains(Operation *op) const { return llvm::is_contained(ops, op); }

  /// Returns the bytes that the ops read from memory, but for sources for which
  /// `isLoaded` is true. Of a table that is looked up, these are the rows.
  double countLoaded(function_ref<bool(Value source)> isLoaded) const;

  void moveBefore(Operation *op);
  void erase();

private:
  Value get(Value value);
  Value build(OpResult value);
  Value clone(Operation *op);
  Value decompose(OpResult value);

  SaveOp save;
  const DenseMap<Value, SaveOp> &saves;
  Operation *before;
  Value value;
  unsigned left; ///< The number of ops that may still be built.
  SmallVector<Operation *> ops;
  ImplicitLocOpBuilder b;
  llvm::SmallSetVector<Value, 4> sources;
  DenseMap<Value, Value> copies;
};

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_TILING_REBUILD_H
