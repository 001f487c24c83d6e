//===- MmaTile.cpp - Tiles on tensor cores --------------------------------===//
//
// Each warp has a part of the tile. ldmatrix transposes the matrices if entries
// rather than terms are contiguous in shared memory.
//
//===----------------------------------------------------------------------===//

#include "WarpMma.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr int64_t kRows = WarpMma::kRows, kColumns = WarpMma::kColumns,
                         kTerms = WarpMma::kTerms, kSums = WarpMma::kSums;

namespace {
/// Multiplies tiles by tensor cores.
class MmaTile : public TileMath {
public:
  MmaTile(Indices at, const Tiling &tiling)
      : at(at), matrices{at}, tiling(tiling),
        ownRows(tiling.rows / tiling.warpRows),
        ownColumns(tiling.columns / tiling.warpColumns) {}

  SharedTile layOut(Operand::Direction along, int64_t entries,
                    int64_t step) const override {
    bool areTerms = along == Operand::Terms;
    int64_t pitch = WarpMma::getPitch(areTerms ? step : entries);
    return {along, pitch, pitch * (areTerms ? entries : step)};
  }

  void start(Value thread) override {
    auto [warp, inWarp] = at.divide(thread, 32);
    matrices.lane = inWarp;
    auto [warpRow, warpColumn] = at.divide(warp, tiling.warpColumns);
    firstRow = at.scale(warpRow, ownRows);
    firstColumn = at.scale(warpColumn, ownColumns);
  }

  int64_t countSums() const override {
    return ownRows / kRows * (ownColumns / kColumns) * kSums;
  }

  SmallVector<Value> multiply(const SharedTile &lhs, Value lhsStage,
                              const SharedTile &rhs, Value rhsStage,
                              ValueRange sums) override;
  void forEach(ValueRange sums, Visit visit) const override;

private:
  Indices at;
  WarpMma matrices;
  Tiling tiling;
  int64_t ownRows, ownColumns; ///< Per warp.
  Value firstRow, firstColumn;
};
} // namespace

SmallVector<Value> MmaTile::multiply(const SharedTile &lhs, Value lhsStage,
                                     const SharedTile &rhs, Value rhsStage,
                                     ValueRange sums) {
  SmallVector<Value> all = llvm::to_vector(sums);
  Value left = matrices.findRow(lhs, lhsStage, firstRow, 0),
        right = matrices.findRow(rhs, rhsStage, firstColumn, 1);
  for (int64_t term = 0; term < tiling.step; term += kTerms) {
    SmallVector<Value> rows;
    for (int64_t row = 0; row < ownRows; row += kRows)
      rows.push_back(matrices.load(lhs, left, row, term));
    for (int64_t column = 0; column < ownColumns; column += 2 * kColumns) {
      Value both = matrices.load(rhs, right, column, term);
      for (int64_t half = 0; half < 2; ++half)
        for (auto [i, row] : llvm::enumerate(rows)) {
          auto number = static_cast<int64_t>(i) * (ownColumns / kColumns) +
                        column / kColumns + half;
          matrices.multiply(row, both, half,
                            MutableArrayRef(all).slice(number * kSums, kSums));
        }
    }
  }
  return all;
}

/// A lane has adjacent results in one row, and in the row eight below.
void MmaTile::forEach(ValueRange sums, Visit visit) const {
  auto [group, member] = at.divide(matrices.lane, 4);
  Value row = at.add(firstRow, group),
        column = at.add(firstColumn, at.scale(member, 2));
  SmallVector<Value> columns;
  for (int64_t j = 0; j < ownColumns; j += kColumns)
    columns.push_back(at.add(column, j));
  int64_t number = 0;
  for (int64_t i = 0; i < ownRows; i += kRows) {
    Value both[] = {at.add(row, i), at.add(row, i + WarpMma::kSide)};
    for (Value first : columns)
      for (Value own : both) {
        visit(own, first, sums.slice(number, 2));
        number += 2;
      }
  }
}

std::unique_ptr<TileMath> mlir::binade::createMmaTile(Indices at,
                                                      const Tiling &tiling) {
  return std::make_unique<MmaTile>(at, tiling);
}
