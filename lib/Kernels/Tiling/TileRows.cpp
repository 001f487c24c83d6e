//===- TileRows.cpp - Tiling of large short-lived values by rows ----------===//
//
// The logits of a language model are larger than everything else in its step,
// and short-lived: computed from the last hidden state, they are reduced to a
// loss, and their gradient is an operand of matmuls. The ops from the matmul
// that computes the value to those that consume its gradient are executed for a
// few rows at a time, so that the value never exists as a whole and stays in a
// cache.
//
//===----------------------------------------------------------------------===//

#include "PieceTimes.h"
#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Watch.h"
#include "binade/Kernels/Passes.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::binade {
#define GEN_PASS_DEF_TILEROWSPASS
#include "binade/Kernels/Passes.h.inc"

/// On a GPU, the large value is at least this many times as large as the
/// results of its region.
static constexpr int64_t kMinSaving = 4;

namespace {
/// Replaces the ops of a region by a tile.
class Tiler {
public:
  explicit Tiler(const RowRegion &region) : region(region) {}

  /// Splits the large value into pieces of at most `maxElements` elements,
  /// but at least `minRows` rows. On a GPU, into as many as are hardly slower
  /// than the fastest number, if that saves memory. Returns false if this is
  /// one piece.
  bool tile(int64_t maxElements, int64_t minRows, const GpuCosts *costs);

private:
  TileShape chooseShape(int64_t maxElements, int64_t minRows,
                        const GpuCosts *costs) const;
  bool savesMemory() const;
  void findOperands();
  TileYield build(ImplicitLocOpBuilder &b, ValueRange pieces, bool isRemainder);
  void replace(ImplicitLocOpBuilder &b, ArrayRef<Value> results);

  const RowRegion &region;
  TileShape shape;
  SetVector<Value> cut, whole;      ///< Operands, sliced or not.
  SmallVector<Value> joined, added; ///< Results.
};

TileShape Tiler::chooseShape(int64_t maxElements, int64_t minRows,
                             const GpuCosts *costs) const {
  RankedTensorType type = getTensor(region.getLarge());
  int64_t size = type.getNumElements();
  int64_t length = region.getLength().value_or(1);
  int64_t most = std::min(length, size / type.getShape().back() /
                                      std::max<int64_t>(minRows, 1));
  if (costs)
    return PieceTimes(region, *costs).choose(most);
  int64_t found = 1;
  for (int64_t pieces = 1; pieces <= most && size / found > maxElements;
       ++pieces)
    if (length % pieces == 0)
      found = pieces;
  return {found};
}

void Tiler::findOperands() {
  for (Operation *op : region.getOps()) {
    std::optional<Rows> rows = getRows(op);
    for (auto [operand, isCut] : llvm::zip(op->getOperands(), rows->cut))
      if (!region.contains(operand.getDefiningOp()) &&
          !(isCut && getSplatElements(operand)))
        (isCut ? cut : whole).insert(operand);
    for (Value result : op->getResults())
      if (rows->added || region.isUsedOutside(result))
        (rows->added ? added : joined).push_back(result);
  }
}

/// Returns whether the results of the region are much smaller than its large
/// value: otherwise most of the memory stays occupied by results.
bool Tiler::savesMemory() const {
  auto countBits = [](Value value) {
    RankedTensorType type = getTensor(value);
    return type.getNumElements() * type.getElementTypeBitWidth();
  };
  int64_t results = 0;
  for (ArrayRef<Value> values : {ArrayRef(joined), ArrayRef(added)})
    for (Value value : values)
      results += countBits(value);
  return results <= countBits(region.getLarge()) / kMinSaving;
}

bool Tiler::tile(int64_t maxElements, int64_t minRows, const GpuCosts *costs) {
  findOperands();
  if ((joined.empty() && added.empty()) || (costs && !savesMemory()))
    return false;
  shape = chooseShape(maxElements, minRows, costs);
  if (shape.countUnits() == 1)
    return false;
  ImplicitLocOpBuilder b(region.getLarge().getLoc(), region.getOps().back());
  bool isRemainder = false; // The remainder is built second.
  SmallVector<Value> results =
      buildTile(b, shape, cut.getArrayRef(), whole.getArrayRef(),
                [&](ImplicitLocOpBuilder &b, ValueRange pieces) {
                  return build(b, pieces, std::exchange(isRemainder, true));
                });
  replace(b, results);
  return true;
}

/// Builds a body: the ops on pieces.
TileYield Tiler::build(ImplicitLocOpBuilder &b, ValueRange pieces,
                       bool isRemainder) {
  IRMapping ofCut, ofWhole;
  ofCut.map(cut.getArrayRef(), pieces.take_front(cut.size()));
  ofWhole.map(whole.getArrayRef(), pieces.drop_front(cut.size()));
  for (Operation *op : region.getOps()) {
    std::optional<Rows> rows = getRows(op);
    for (auto [operand, isCut] : llvm::zip(op->getOperands(), rows->cut))
      if (SplatElementsAttr splat = getSplatElements(operand); splat && isCut)
        ofCut.map(operand,
                  ConstantOp::create(b, splat.resizeSplat(shape.getPiece(
                                            operand.getType(), isRemainder))));
    Operation *piece = b.clone(*op);
    for (auto [operand, isCut] : llvm::zip(piece->getOpOperands(), rows->cut))
      operand.set((isCut ? ofCut : ofWhole).lookup(operand.get()));
    for (auto [result, part] : llvm::zip(op->getResults(), piece->getResults()))
      part.setType(rows->added ? getTensor(result).clone(b.getF32Type())
                               : shape.getPiece(result.getType(), isRemainder));
    ofCut.map(op->getResults(), piece->getResults());
  }
  auto find = [&](Value value) { return ofCut.lookup(value); };
  return {llvm::map_to_vector(joined, find), llvm::map_to_vector(added, find)};
}

/// Replaces the region's results. Sums, which are f32, are rounded to the
/// original types.
void Tiler::replace(ImplicitLocOpBuilder &b, ArrayRef<Value> results) {
  Operation *last = region.getOps().back();
  setPhase(results.front().getDefiningOp(), getPhase(last));
  SmallVector<Value> old = joined;
  llvm::append_range(old, added);
  for (auto [from, to] : llvm::zip(old, results)) {
    Value rounded = buildCast(b, to, getElementTypeOrSelf(from.getType()));
    if (rounded != to)
      setPhase(rounded.getDefiningOp(), getPhase(last));
    from.replaceUsesWithIf(rounded, [&](OpOperand &use) {
      return !region.contains(use.getOwner());
    });
  }
  for (Operation *op : region.getReaders())
    op->moveBefore(last);
  for (Operation *op : llvm::reverse(region.getOps()))
    op->erase();
}

struct TileRowsPass : impl::TileRowsPassBase<TileRowsPass> {
  using TileRowsPassBase::TileRowsPassBase;

  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation())) {
      TargetAttr target = getTarget(program);
      StringRef chip =
          target ? target.getName().getValue().rsplit(':').second : "";
      tile(program, target ? target.getPiece() : maxElements,
           GpuCosts::find(chip, &getContext()));
    }
  }

private:
  void tile(func::FuncOp program, int64_t most, const GpuCosts *costs) {
    // Each value with its op, because values of replaced ops must not be
    // accessed.
    SmallVector<std::pair<Operation *, Value>> candidates;
    for (Operation &op : program.front()) {
      if (findEvery(&op))
        continue;
      for (Value result : op.getResults())
        if (getTensor(result).getRank() > 1 &&
            getTensor(result).getNumElements() > most)
          candidates.emplace_back(&op, result);
    }
    // The largest first: the values from which it is computed may be large too.
    llvm::stable_sort(candidates, [](auto &l, auto &r) {
      return getTensor(l.second).getNumElements() >
             getTensor(r.second).getNumElements();
    });
    DenseSet<Operation *> replaced;
    for (auto [op, candidate] : candidates) {
      if (replaced.contains(op))
        continue;
      RowRegion region(candidate);
      if (!region.grow())
        continue;
      SmallVector<Operation *> old(region.getOps());
      if (Tiler(region).tile(most, minRows, costs))
        replaced.insert_range(old);
    }
  }
};
} // namespace
} // namespace mlir::binade
