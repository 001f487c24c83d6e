//===- MmaTile.cpp - a tile by the matrix units ---------------------------===//
//
// Each warp has a part of the tile, in products of 16 x 16 by 16 x 8: f16 or
// bf16 with sums of f32. ldmatrix fetches four matrices of 8 x 8 at a time,
// transposed where entries rather than terms follow one another.
//
// Of a matrix each row is 16 bytes. Rows of shared memory are padded by as
// much, to an odd multiple of 16 bytes: the 8 rows lie in different banks.
//
//===----------------------------------------------------------------------===//

#include "Tile.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

/// Rows, columns and terms of a product, and the side of a matrix of ldmatrix.
static constexpr int64_t kRows = 16, kColumns = 8, kTerms = 16, kSide = 8;
static constexpr int64_t kSums = 4; ///< Of a product, in each thread.

namespace {
class MmaTile : public TileMath {
public:
  MmaTile(Indices at, const Tiling &tiling)
      : at(at), tiling(tiling), ownRows(tiling.rows / tiling.warpRows),
        ownColumns(tiling.columns / tiling.warpColumns) {}

  SharedTile layOut(Operand::Direction along, int64_t entries,
                    int64_t step) const override {
    bool areTerms = along == Operand::Terms;
    int64_t pitch = (areTerms ? step : entries) + kSide;
    return {along, pitch, pitch * (areTerms ? entries : step)};
  }

  void start(Value thread) override {
    auto [warp, inWarp] = at.divide(thread, 32);
    lane = inWarp;
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
  /// The place in `tile` of the row of a matrix that this lane names.
  /// `entryBit` is the bit of the matrix's number that moves it along entries;
  /// the other one moves it along terms.
  Value findRow(const SharedTile &tile, Value stage, Value firstEntry,
                unsigned entryBit) const;
  Value loadMatrices(const SharedTile &tile, Value start, int64_t entry,
                     int64_t term) const;

  Indices at;
  Tiling tiling;
  int64_t ownRows, ownColumns; ///< Of a warp.
  Value lane, firstRow, firstColumn;
};
} // namespace

Value MmaTile::findRow(const SharedTile &tile, Value stage, Value firstEntry,
                       unsigned entryBit) const {
  auto [matrix, row] = at.divide(lane, kSide);
  auto [high, low] = at.divide(matrix, 2);
  Value entry = at.scale(entryBit == 0 ? low : high, kSide),
        term = at.scale(entryBit == 0 ? high : low, kSide);
  Value &along = tile.along == Operand::Terms ? entry : term;
  along = at.add(along, row);
  return tile.place(at, stage, at.add(firstEntry, entry), term);
}

Value MmaTile::loadMatrices(const SharedTile &tile, Value start, int64_t entry,
                            int64_t term) const {
  bool areTerms = tile.along == Operand::Terms;
  int64_t further =
      areTerms ? entry * tile.pitch + term : term * tile.pitch + entry;
  auto type = VectorType::get(
      {4, 2}, cast<MemRefType>(tile.memory.getType()).getElementType());
  return nvgpu::LdMatrixOp::create(at.b, type, tile.memory,
                                   at.add(start, further),
                                   /*transpose=*/!areTerms, /*numTiles=*/4);
}

SmallVector<Value> MmaTile::multiply(const SharedTile &lhs, Value lhsStage,
                                     const SharedTile &rhs, Value rhsStage,
                                     ValueRange sums) {
  ImplicitLocOpBuilder &b = at.b;
  SmallVector<Value> all = llvm::to_vector(sums);
  Value left = findRow(lhs, lhsStage, firstRow, 0),
        right = findRow(rhs, rhsStage, firstColumn, 1);
  auto pair = VectorType::get({2, 2}, b.getF32Type());
  auto flat = VectorType::get({kSums}, b.getF32Type());
  auto multiplyOne = [&](Value x, Value y, MutableArrayRef<Value> own) {
    Value before = vector::ShapeCastOp::create(
        b, pair, vector::FromElementsOp::create(b, flat, own));
    Value after = nvgpu::MmaSyncOp::create(
        b, x, y, before, b.getI64ArrayAttr({kRows, kColumns, kTerms}));
    after = vector::ShapeCastOp::create(b, flat, after);
    for (auto [i, sum] : llvm::enumerate(own))
      sum = vector::ExtractOp::create(b, after, static_cast<int64_t>(i));
  };
  for (int64_t term = 0; term < tiling.step; term += kTerms) {
    SmallVector<Value> rows;
    for (int64_t row = 0; row < ownRows; row += kRows)
      rows.push_back(loadMatrices(lhs, left, row, term));
    for (int64_t column = 0; column < ownColumns; column += 2 * kColumns) {
      Value both = loadMatrices(rhs, right, column, term);
      for (int64_t half = 0; half < 2; ++half) {
        Value own = vector::ExtractStridedSliceOp::create(
            b, both, ArrayRef<int64_t>{2 * half}, ArrayRef<int64_t>{2},
            ArrayRef<int64_t>{1});
        for (auto [i, row] : llvm::enumerate(rows)) {
          auto number = static_cast<int64_t>(i) * (ownColumns / kColumns) +
                        column / kColumns + half;
          multiplyOne(row, own,
                      MutableArrayRef(all).slice(number * kSums, kSums));
        }
      }
    }
  }
  return all;
}

/// A lane has neighbours in one row, and those eight rows below.
void MmaTile::forEach(ValueRange sums, Visit visit) const {
  auto [group, member] = at.divide(lane, 4);
  Value row = at.add(firstRow, group),
        column = at.add(firstColumn, at.scale(member, 2));
  SmallVector<Value> columns;
  for (int64_t j = 0; j < ownColumns; j += kColumns)
    columns.push_back(at.add(column, j));
  int64_t number = 0;
  for (int64_t i = 0; i < ownRows; i += kRows) {
    Value both[] = {at.add(row, i), at.add(row, i + kSide)};
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
