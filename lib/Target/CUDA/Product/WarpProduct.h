//===- WarpProduct.h - what a warp multiplies at once -----------*- C++ -*-===//
//
// The matrix units multiply 16 x 16 by 16 x 8: f16 or bf16 with sums of f32.
// ldmatrix fetches four matrices of 8 x 8 from shared memory at a time.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_TARGET_CUDA_PRODUCT_WARPPRODUCT_H
#define BINADE_LIB_TARGET_CUDA_PRODUCT_WARPPRODUCT_H

#include "Tile.h"

namespace mlir::binade {

struct WarpProduct {
  /// Rows, columns and terms of a product, and the side of a matrix.
  static constexpr int64_t kRows = 16, kColumns = 8, kTerms = 16, kSide = 8;
  /// Sums of a product in each thread: two neighbours in the row of its group
  /// of four lanes, and those eight rows below.
  static constexpr int64_t kSums = 4;

  Indices at;
  Value lane = {}; ///< Of this thread.

  /// Of a matrix each row is 16 bytes. Rows of shared memory are padded by as
  /// much, to an odd multiple of 16 bytes: eight rows lie in different banks.
  static int64_t getPitch(int64_t elements) { return elements + kSide; }

  /// The place in `tile` of the row of a matrix that this lane names.
  /// `entryBit` is the bit of the matrix's number that moves it along entries;
  /// the other one moves it along terms: 0 for the left side of a product, 1
  /// for the right.
  Value findRow(const SharedTile &tile, Value stage, Value firstEntry,
                unsigned entryBit) const;

  /// Four matrices: 16 entries and terms, from (entry, term) on from where
  /// `start` is. They are transposed where entries follow one another.
  Value load(const SharedTile &tile, Value start, int64_t entry,
             int64_t term) const;

  /// Adds to `sums` 16 rows by columns 0 to 7 (`half` 0) or 8 to 15 of `both`.
  void multiply(Value rows, Value both, int64_t half,
                MutableArrayRef<Value> sums) const;
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_PRODUCT_WARPPRODUCT_H
