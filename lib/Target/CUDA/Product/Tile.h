//===- Tile.h - a block's tile of a result, step by step --------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_PRODUCT_TILE_H
#define BINADE_LIB_TARGET_CUDA_PRODUCT_TILE_H

#include "Gather.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace mlir::binade {

/// A step's elements of an operand in shared memory, twice: while one is
/// multiplied the other is filled.
struct SharedTile {
  /// What follows one another: entries or terms.
  Operand::Direction along = Operand::Entries;
  int64_t pitch = 0; ///< From one row of these to the next, padded.
  int64_t elements = 0;
  int64_t first = 0; ///< Of the two, in `memory`.
  Value memory = {};

  Value findStage(Indices at, Value number) const {
    return at.add(at.scale(number, elements), first);
  }

  /// Element (entry, term) of the stage that starts at `stage`.
  Value place(Indices at, Value stage, Value entry, Value term) const {
    auto [row, column] = along == Operand::Terms ? std::pair(entry, term)
                                                 : std::pair(term, entry);
    return at.add(stage, at.add(at.scale(row, pitch), column));
  }
};

/// How the threads of a block multiply what lies in shared memory.
class TileMath {
public:
  virtual ~TileMath() = default;

  /// How `operand` is laid out there; `along` is how it is read best.
  virtual SharedTile layOut(Operand::Direction along, int64_t entries,
                            int64_t step) const = 0;
  /// What does not change from step to step.
  virtual void start(Value thread) = 0;
  /// Sums that a thread has, each an f32.
  virtual int64_t countSums() const = 0;
  /// `sums` with the products of a step.
  virtual SmallVector<Value> multiply(const SharedTile &lhs, Value lhsStage,
                                      const SharedTile &rhs, Value rhsStage,
                                      ValueRange sums) = 0;
  /// Calls `visit` with the row and the first column in the tile of a few
  /// neighbours, and with their sums; in the order of sums. A row is the same
  /// value each time, and so is a column.
  using Visit = function_ref<void(Value row, Value column, ValueRange sums)>;
  virtual void forEach(ValueRange sums, Visit visit) const = 0;
};

std::unique_ptr<TileMath> createFmaTile(Indices at, const Tiling &tiling);
/// By the matrix units.
std::unique_ptr<TileMath> createMmaTile(Indices at, const Tiling &tiling);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_PRODUCT_TILE_H
