//===- Tile.h - Tiles in shared memory --------------------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_CONTRACTION_TILE_H
#define BINADE_LIB_TARGET_CUDA_CONTRACTION_TILE_H

#include "Gather.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace mlir::binade {

/// The elements of an operand for one step in shared memory, twice: while one
/// copy is multiplied, the other one is filled.
struct SharedTile {
  /// The direction in which elements are contiguous.
  Operand::Direction along = Operand::Entries;
  int64_t pitch = 0; ///< Elements from one row to the next, padded.
  int64_t elements = 0;
  int64_t first = 0; ///< Where the two copies start in `memory`.
  Value memory = {};

  Value findStage(Indices at, Value number) const {
    return at.add(at.scale(number, elements), first);
  }

  /// Returns the index of element (entry, term) in the copy at `stage`.
  Value place(Indices at, Value stage, Value entry, Value term) const {
    auto [row, column] = along == Operand::Terms ? std::pair(entry, term)
                                                 : std::pair(term, entry);
    return at.add(stage, at.add(at.scale(row, pitch), column));
  }
};

/// How the threads of a block multiply tiles in shared memory.
class TileMath {
public:
  virtual ~TileMath() = default;

  /// Returns the layout of an operand; `along` is the direction in which global
  /// memory is read best.
  virtual SharedTile layOut(Operand::Direction along, int64_t entries,
                            int64_t step) const = 0;
  /// Computes what is the same in all steps.
  virtual void start(Value thread) = 0;
  /// Returns the number of sums per thread, which are f32.
  virtual int64_t countSums() const = 0;
  /// Returns `sums` with the contributions of one step.
  virtual SmallVector<Value> multiply(const SharedTile &lhs, Value lhsStage,
                                      const SharedTile &rhs, Value rhsStage,
                                      ValueRange sums) = 0;
  /// Calls `visit` with the row and the first column in the tile of a few
  /// adjacent results, and with their sums, in the order of the sums. Equal
  /// rows and equal columns are passed as the same SSA value.
  using Visit = function_ref<void(Value row, Value column, ValueRange sums)>;
  virtual void forEach(ValueRange sums, Visit visit) const = 0;
};

std::unique_ptr<TileMath> createFmaTile(Indices at, const Tiling &tiling);
/// Creates a tile that uses tensor cores.
std::unique_ptr<TileMath> createMmaTile(Indices at, const Tiling &tiling);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_CONTRACTION_TILE_H
