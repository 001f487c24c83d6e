//===- PieceTimes.h - Predicted time of tiles on a GPU ----------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_TILING_PIECETIMES_H
#define BINADE_LIB_KERNELS_TILING_PIECETIMES_H

#include "RowRegion.h"
#include "binade/Costs/GpuCosts.h"

namespace mlir::binade {

/// Predicts how long a region takes on a GPU, depending on the number of pieces
/// in which its rows are computed.
class PieceTimes {
public:
  PieceTimes(const RowRegion &region, const GpuCosts &costs)
      : region(region), costs(costs) {}

  /// Returns the seconds of all pieces.
  double predict(int64_t pieces) const;

  /// Returns the largest number of pieces, up to `most`, that takes hardly
  /// longer than the fastest one. Pieces are equal, so it divides the rows. 1
  /// if the region has fewer than two rows.
  int64_t choose(int64_t most) const;

private:
  double predictMatmul(PrecisionOpInterface op, const Rows &rows,
                       int64_t pieces) const;
  double predictPass(Operation *op, const Rows &rows, int64_t pieces) const;

  const RowRegion &region;
  const GpuCosts &costs;
};

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_TILING_PIECETIMES_H
