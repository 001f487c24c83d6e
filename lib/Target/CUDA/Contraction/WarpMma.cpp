//===- WarpMma.cpp - Matrix instructions of a warp ------------------------===//

#include "WarpMma.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

Value WarpMma::findRow(const SharedTile &tile, Value stage, Value firstEntry,
                       unsigned entryBit) const {
  auto [matrix, row] = at.divide(lane, kSide);
  auto [high, low] = at.divide(matrix, 2);
  Value entry = at.scale(entryBit == 0 ? low : high, kSide),
        term = at.scale(entryBit == 0 ? high : low, kSide);
  Value &along = tile.along == Operand::Terms ? entry : term;
  along = at.add(along, row);
  return tile.place(at, stage, at.add(firstEntry, entry), term);
}

Value WarpMma::load(const SharedTile &tile, Value start, int64_t entry,
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

void WarpMma::multiply(Value rows, Value both, int64_t half,
                       MutableArrayRef<Value> sums) const {
  ImplicitLocOpBuilder &b = at.b;
  auto pair = VectorType::get({2, 2}, b.getF32Type());
  auto flat = VectorType::get({kSums}, b.getF32Type());
  Value columns = vector::ExtractStridedSliceOp::create(
      b, both, ArrayRef<int64_t>{2 * half}, ArrayRef<int64_t>{2},
      ArrayRef<int64_t>{1});
  Value before = vector::ShapeCastOp::create(
      b, pair, vector::FromElementsOp::create(b, flat, sums));
  Value after = nvgpu::MmaSyncOp::create(
      b, rows, columns, before, b.getI64ArrayAttr({kRows, kColumns, kTerms}));
  after = vector::ShapeCastOp::create(b, flat, after);
  for (auto [i, sum] : llvm::enumerate(sums))
    sum = vector::ExtractOp::create(b, after, static_cast<int64_t>(i));
}
