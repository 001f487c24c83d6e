//===- Fetch.h - Load tiles to shared memory --------------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_CONTRACTION_FETCH_H
#define BINADE_LIB_TARGET_CUDA_CONTRACTION_FETCH_H

#include "Tile.h"

namespace mlir::binade {

/// How the threads of a block load an operand's tile to shared memory. Each
/// thread loads a few vectors along entries or terms, whichever allows wider
/// accesses, such that adjacent threads access adjacent memory.
class Fetch {
public:
  /// `entries` is the number of entries in the tile, and `element` its element
  /// type.
  Fetch(Indices at, const Operand &operand, const TileMath &math,
        const Tiling &tiling, int64_t entries, Type element);

  /// Computes what is the same in all steps. `first` is the first entry of the
  /// tile.
  void start(Value thread, Value first, const Gather &from);

  /// Loads this thread's elements of the step whose first term is `first`.
  SmallVector<Value> load(Value first) const;
  void store(ValueRange loaded, Value stage) const;

  SharedTile tile;

private:
  /// Returns the number of vectors per thread.
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
  Operand::Direction along; ///< Direction of vectors.
  int64_t width, rowsAtOnce = 0;
  const Gather *gather = nullptr;
  Value outer, inner; ///< Position of this thread's first element.
  SmallVector<Gather::Share> shares; ///< Addresses of its entries.
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_CONTRACTION_FETCH_H
