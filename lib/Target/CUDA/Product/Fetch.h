//===- Fetch.h - an operand's tile to shared memory -------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_PRODUCT_FETCH_H
#define BINADE_LIB_TARGET_CUDA_PRODUCT_FETCH_H

#include "Tile.h"

namespace mlir::binade {

/// How the threads of a block bring an operand's tile to shared memory: each
/// has a few vectors along entries or terms, whichever is wider, and thereby
/// neighbours in memory are those of neighbouring threads.
class Fetch {
public:
  /// `entries` are those of a tile, and `element` is what it holds.
  Fetch(Indices at, const Operand &operand, const TileMath &math,
        const Tiling &tiling, int64_t entries, Type element);

  /// What does not change from step to step. `first` is the tile's first entry.
  void start(Value thread, Value first, const Gather &from);

  /// The elements of this thread, of the step whose first term is `first`.
  SmallVector<Value> load(Value first) const;
  void store(ValueRange loaded, Value stage) const;

  SharedTile tile;

private:
  /// Vectors of a thread.
  int64_t countRows() const {
    return entries * tiling.step / (width * tiling.threads);
  }
  bool isCloserByTerm() const;
  void storeOne(Value x, Value stage, Value entry, Value term) const;

  Indices at;
  const Operand &operand;
  int64_t entries;
  const Tiling &tiling;
  Type element;
  Operand::Direction along; ///< Of vectors.
  int64_t width, rowsAtOnce = 0;
  const Gather *gather = nullptr;
  Value outer, inner;                ///< Of this thread's first elements.
  SmallVector<Gather::Share> shares; ///< Of its entries.
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_PRODUCT_FETCH_H
