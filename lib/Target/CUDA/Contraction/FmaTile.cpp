//===- FmaTile.cpp - Tiles by fma instructions in f32 ---------------------===//
//
// A thread has a few adjacent rows and columns of the tile. Sums are in the
// order of the terms.
//
//===----------------------------------------------------------------------===//

#include "Tile.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Multiplies tiles by fma instructions.
class FmaTile : public TileMath {
public:
  FmaTile(Indices at, const Tiling &tiling)
      : at(at), step(tiling.step), side(tiling.step),
        share(tiling.rows / side) {}

  SharedTile layOut(Operand::Direction, int64_t entries,
                    int64_t step) const override {
    // Rows are padded, so that terms of an entry are in different banks.
    return {Operand::Entries, entries + share, (entries + share) * step};
  }

  void start(Value thread) override {
    auto [threadRow, threadColumn] = at.divide(thread, side);
    row = at.scale(threadRow, share);
    column = at.scale(threadColumn, share);
  }

  int64_t countSums() const override { return share * share; }

  SmallVector<Value> multiply(const SharedTile &lhs, Value lhsStage,
                              const SharedTile &rhs, Value rhsStage,
                              ValueRange sums) override {
    ImplicitLocOpBuilder &b = at.b;
    auto loop = scf::ForOp::create(b, at.constant(0), at.constant(step),
                                   at.constant(1), sums);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    auto type = VectorType::get({share}, b.getF32Type());
    auto loadAll = [&](const SharedTile &tile, Value stage, Value own) {
      Value all = vector::LoadOp::create(
          b, type, tile.memory,
          tile.place(at, stage, own, loop.getInductionVar()),
          /*nontemporal=*/false, llvm::MaybeAlign(share * sizeof(float)));
      SmallVector<Value> values;
      for (int64_t i = 0; i < share; ++i)
        values.push_back(vector::ExtractOp::create(b, all, i));
      return values;
    };
    SmallVector<Value> x = loadAll(lhs, lhsStage, row),
                       y = loadAll(rhs, rhsStage, column), next;
    for (int64_t i = 0; i < share; ++i)
      for (int64_t j = 0; j < share; ++j)
        next.push_back(math::FmaOp::create(
            b, x[i], y[j], loop.getRegionIterArgs()[i * share + j]));
    scf::YieldOp::create(b, next);
    return llvm::to_vector_of<Value>(loop.getResults());
  }

  void forEach(ValueRange sums, Visit visit) const override {
    for (int64_t i = 0; i < share; ++i)
      visit(at.add(row, i), column, sums.slice(i * share, share));
  }

private:
  Indices at;
  int64_t step, side, share;
  Value row, column;
};
} // namespace

std::unique_ptr<TileMath> mlir::binade::createFmaTile(Indices at,
                                                      const Tiling &tiling) {
  return std::make_unique<FmaTile>(at, tiling);
}
