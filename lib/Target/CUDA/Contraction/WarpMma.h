//===- WarpMma.h - Matrix instructions of a warp ----------------*- C++ -*-===//
//
// Tensor cores multiply 16 x 16 by 16 x 8 matrices of f16 or bf16 with sums in
// f32. ldmatrix loads four 8 x 8 matrices from shared memory at a time.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_TARGET_CUDA_CONTRACTION_WARPMMA_H
#define BINADE_LIB_TARGET_CUDA_CONTRACTION_WARPMMA_H

#include "Tile.h"

namespace mlir::binade {

/// Emits ldmatrix and mma instructions of one warp.
struct WarpMma {
  /// Rows, columns and terms of an mma instruction, and the side of an ldmatrix
  /// matrix.
  static constexpr int64_t kRows = 16, kColumns = 8, kTerms = 16, kSide = 8;
  /// Sums of an mma instruction per thread: two adjacent ones in the row of its
  /// group of four lanes, and two eight rows below.
  static constexpr int64_t kSums = 4;

  Indices at;
  Value lane = {}; ///< The thread's number in the warp.

  /// Returns the pitch of a row in shared memory. A row of a matrix has 16
  /// bytes. Rows are padded by 16 bytes to an odd multiple of 16 bytes, so that
  /// eight rows are in different banks.
  static int64_t getPitch(int64_t elements) { return elements + kSide; }

  /// Returns the place in `tile` of the matrix row whose address this lane
  /// supplies. `entryBit` is the bit of the matrix's number that selects
  /// entries; the other bit selects terms. It is 0 for left operands and 1 for
  /// right ones.
  Value findRow(const SharedTile &tile, Value stage, Value firstEntry,
                unsigned entryBit) const;

  /// Loads four matrices: 16 entries and 16 terms, from (entry, term) relative
  /// to `start` on. They are transposed if entries are contiguous.
  Value load(const SharedTile &tile, Value start, int64_t entry,
             int64_t term) const;

  /// Adds to `sums` the product of 16 rows and columns 0 to 7 (`half` 0) or 8
  /// to 15 (`half` 1) of `both`.
  void multiply(Value rows, Value both, int64_t half,
                MutableArrayRef<Value> sums) const;
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_CONTRACTION_WARPMMA_H
