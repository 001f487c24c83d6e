//===- PieceTimes.h - Predicted time of tiles on a GPU ----------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_TILING_PIECETIMES_H
#define BINADE_LIB_KERNELS_TILING_PIECETIMES_H

#include "RowRegion.h"
#include "binade/Costs/GpuCosts.h"

namespace mlir::binade {

/// Predicts how long a region takes on a GPU, depending on the pieces in which
/// its rows are computed.
class PieceTimes {
public:
  PieceTimes(const RowRegion &region, const GpuCosts &costs)
      : region(region), costs(costs) {}

  /// Returns the seconds of all pieces.
  double predict(const TileShape &shape) const;

  /// Returns the smallest pieces, up to `most`, that take hardly longer than
  /// the fastest ones; if equal pieces are not much larger, these, because a
  /// last piece of another size has kernels of its own. One piece if the region
  /// has fewer than two rows.
  TileShape choose(int64_t most) const;

private:
  /// The part of the rows that a piece has.
  struct Part {
    int64_t size, all;
    bool isAlone() const { return size == all; }
    int64_t of(int64_t rows) const { return rows / all * size; }
  };

  double predictPiece(const Part &part) const;
  double predictMatmul(PrecisionOpInterface op, const Rows &rows,
                       const Part &part) const;
  double predictPass(Operation *op, const Rows &rows, const Part &part) const;

  const RowRegion &region;
  const GpuCosts &costs;
};

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_TILING_PIECETIMES_H
