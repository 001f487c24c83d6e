//===- TileRows.cpp - Large short-lived values a few rows at a time -------===//
// The logits of a language model are larger than everything else in its step,
// and short-lived: made from the last hidden state, they become a loss and a
// gradient, which goes back into products. The ops between, from the product
// that makes the value to those that consume its gradient, are done for a few
// rows at a time, so that the value never exists whole and stays in a cache.
//===----------------------------------------------------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/Kernels/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include <numeric>

namespace mlir::binade {
#define GEN_PASS_DEF_TILEROWSPASS
#include "binade/Kernels/Passes.h.inc"

namespace {
RankedTensorType getTensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

std::optional<Rows> getRows(Operation *op) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  return kernelOp ? kernelOp.getRows() : std::nullopt;
}

SplatElementsAttr getSplat(Value value) {
  SplatElementsAttr splat;
  matchPattern(value, m_Constant(&splat));
  return splat;
}

/// Ops that are done together, a few rows at a time: those around one large
/// value and all others of its size that they make or read.
class Region {
public:
  explicit Region(Value large)
      : large(large), least(getTensor(large).getNumElements() / 2),
        block(large.getParentBlock()) {}

  /// Finds the ops; fails where one of them needs all rows at once.
  bool grow() { return addValue(large) && close(); }

  ArrayRef<Operation *> getOps() const { return ops.getArrayRef(); }

  /// Replaces the ops by a tile whose pieces have at most `elements` elements
  /// of the large value, but no fewer than `rows` rows.
  bool tile(int64_t elements, int64_t rows);

private:
  bool isLarge(Value value) const {
    return getTensor(value).getNumElements() >= least;
  }
  bool contains(Operation *op) const { return op && ops.contains(op); }
  bool isUsedOutside(Value value) const {
    return !llvm::all_of(value.getUsers(),
                         [&](Operation *user) { return contains(user); });
  }

  bool addValue(Value value);
  bool addOp(Operation *op);
  bool close();
  bool isConsistent() const;
  std::optional<int64_t> getLength() const;
  void sort();
  TileYield build(ImplicitLocOpBuilder &b, ValueRange pieces);
  void replace(ImplicitLocOpBuilder &b, ArrayRef<Value> results);

  Value large;
  int64_t least; ///< Elements of a value that must not exist whole.
  Block *block;
  SetVector<Operation *> ops;
  DenseSet<Value> inside; ///< Large values.
  /// Ops that read what these make, and stand between them.
  SmallVector<Operation *> later;
  int64_t count = 1;
  SetVector<Value> cut, whole;      ///< Operands of the tile.
  SmallVector<Value> joined, added; ///< Its results.
};

bool Region::addValue(Value value) {
  if (!inside.insert(value).second)
    return true;
  Operation *producer = value.getDefiningOp();
  return producer && addOp(producer) &&
         llvm::all_of(value.getUsers(),
                      [&](Operation *user) { return addOp(user); });
}

bool Region::addOp(Operation *op) {
  constexpr unsigned kMostOps = 64;
  if (op->getBlock() != block || ops.size() > kMostOps)
    return false;
  if (!ops.insert(op))
    return true;
  std::optional<Rows> rows = getRows(op);
  if (!rows)
    return false;
  for (auto [operand, isCut] : llvm::zip(op->getOperands(), rows->cut))
    if (isCut && isLarge(operand) && operand.getDefiningOp() &&
        !getSplat(operand) && !addValue(operand))
      return false;
  return rows->added || llvm::all_of(op->getResults(), [&](Value result) {
           return !isLarge(result) || addValue(result);
         });
}

/// Adds what stands between the ops: reads what they make, and is read by them.
bool Region::close() {
  // Ops far apart, as the two halves of a step are, share nothing short-lived.
  constexpr unsigned kWindow = 256;
  for (;;) {
    sort();
    SmallVector<Operation *> window;
    for (Operation *op = ops.front(); window.size() < kWindow;
         op = op->getNextNode()) {
      window.push_back(op);
      if (op == ops.back())
        break;
    }
    if (window.back() != ops.back())
      return false;
    DenseSet<Operation *> after, before;
    for (Operation *op : window)
      if (llvm::any_of(op->getOperands(), [&](Value operand) {
            Operation *producer = operand.getDefiningOp();
            return contains(producer) || after.contains(producer);
          }))
        after.insert(op);
    for (Operation *op : llvm::reverse(window))
      if (llvm::any_of(op->getUsers(), [&](Operation *user) {
            return contains(user) || before.contains(user);
          }))
        before.insert(op);
    size_t size = ops.size();
    later.clear();
    for (Operation *op : window) {
      if (contains(op) || !after.contains(op))
        continue;
      if (!before.contains(op))
        later.push_back(op);
      else if (!addOp(op))
        return false;
    }
    if (ops.size() == size)
      return isConsistent();
  }
}

/// Whether nobody reads rows of others, or sums before they are complete.
bool Region::isConsistent() const {
  return llvm::all_of(ops, [&](Operation *op) {
    std::optional<Rows> rows = getRows(op);
    for (auto [operand, isCut] : llvm::zip(op->getOperands(), rows->cut)) {
      Operation *producer = operand.getDefiningOp();
      if (contains(producer) && (!isCut || getRows(producer)->added))
        return false;
    }
    return true;
  });
}

void Region::sort() {
  SmallVector<Operation *> sorted = ops.takeVector();
  llvm::sort(sorted,
             [](Operation *l, Operation *r) { return l->isBeforeInBlock(r); });
  ops.insert_range(sorted);
}

/// The greatest common divisor of all first axes that are cut.
std::optional<int64_t> Region::getLength() const {
  int64_t length = 0;
  auto add = [&](Value value) {
    if (getTensor(value).getRank() == 0)
      return false;
    length = std::gcd(length, getTensor(value).getDimSize(0));
    return true;
  };
  for (Operation *op : ops) {
    std::optional<Rows> rows = getRows(op);
    for (auto [operand, isCut] : llvm::zip(op->getOperands(), rows->cut))
      if (isCut && !add(operand))
        return std::nullopt;
    if (!rows->added && !llvm::all_of(op->getResults(), add))
      return std::nullopt;
  }
  return length;
}

bool Region::tile(int64_t elements, int64_t rows) {
  std::optional<int64_t> length = getLength();
  if (!length)
    return false;
  int64_t size = getTensor(large).getNumElements();
  int64_t numRows = size / getTensor(large).getShape().back();
  for (int64_t pieces = 1;
       pieces <= std::min(*length, numRows / rows) && size / count > elements;
       ++pieces)
    if (*length % pieces == 0)
      count = pieces;
  if (count == 1)
    return false;

  for (Operation *op : ops) {
    std::optional<Rows> opRows = getRows(op);
    for (auto [operand, isCut] : llvm::zip(op->getOperands(), opRows->cut))
      if (!contains(operand.getDefiningOp()) && !(isCut && getSplat(operand)))
        (isCut ? cut : whole).insert(operand);
    for (Value result : op->getResults())
      if (opRows->added || isUsedOutside(result))
        (opRows->added ? added : joined).push_back(result);
  }
  ImplicitLocOpBuilder b(large.getLoc(), ops.back());
  SmallVector<Value> results =
      buildTile(b, count, cut.getArrayRef(), whole.getArrayRef(),
                [this](ImplicitLocOpBuilder &b, ValueRange pieces) {
                  return build(b, pieces);
                });
  replace(b, results);
  return true;
}

/// The ops on pieces.
TileYield Region::build(ImplicitLocOpBuilder &b, ValueRange pieces) {
  IRMapping ofCut, ofWhole;
  ofCut.map(cut.getArrayRef(), pieces.take_front(cut.size()));
  ofWhole.map(whole.getArrayRef(), pieces.drop_front(cut.size()));
  for (Operation *op : ops) {
    std::optional<Rows> rows = getRows(op);
    for (auto [operand, isCut] : llvm::zip(op->getOperands(), rows->cut))
      if (SplatElementsAttr splat = getSplat(operand); splat && isCut)
        ofCut.map(operand,
                  ConstantOp::create(b, splat.resizeSplat(TileOp::getPiece(
                                            operand.getType(), count))));
    Operation *piece = b.clone(*op);
    for (auto [operand, isCut] : llvm::zip(piece->getOpOperands(), rows->cut))
      operand.set((isCut ? ofCut : ofWhole).lookup(operand.get()));
    for (auto [result, part] : llvm::zip(op->getResults(), piece->getResults()))
      part.setType(rows->added ? getTensor(result).clone(b.getF32Type())
                               : TileOp::getPiece(result.getType(), count));
    ofCut.map(op->getResults(), piece->getResults());
  }
  auto find = [&](Value value) { return ofCut.lookup(value); };
  return {llvm::map_to_vector(joined, find), llvm::map_to_vector(added, find)};
}

/// Sums, which are f32, are rounded as the ops' results were.
void Region::replace(ImplicitLocOpBuilder &b, ArrayRef<Value> results) {
  Operation *last = ops.back();
  setPhase(results.front().getDefiningOp(), getPhase(last));
  SmallVector<Value> old = joined;
  llvm::append_range(old, added);
  for (auto [from, to] : llvm::zip(old, results)) {
    Value rounded = buildCast(b, to, getElementTypeOrSelf(from.getType()));
    if (rounded != to)
      setPhase(rounded.getDefiningOp(), getPhase(last));
    from.replaceUsesWithIf(
        rounded, [&](OpOperand &use) { return !contains(use.getOwner()); });
  }
  for (Operation *op : later)
    op->moveBefore(last);
  for (Operation *op : llvm::reverse(ops))
    op->erase();
}

struct TileRowsPass : impl::TileRowsPassBase<TileRowsPass> {
  using TileRowsPassBase::TileRowsPassBase;

  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    if (!step)
      return;
    // With its op: values of ops that have been replaced are not to be asked.
    SmallVector<std::pair<Operation *, Value>> candidates;
    for (Operation &op : step.front())
      for (Value result : op.getResults())
        if (getTensor(result).getRank() > 1 &&
            getTensor(result).getNumElements() > elements)
          candidates.emplace_back(&op, result);
    // The largest first: what it is made of may be large too.
    llvm::stable_sort(candidates, [](auto &l, auto &r) {
      return getTensor(l.second).getNumElements() >
             getTensor(r.second).getNumElements();
    });
    DenseSet<Operation *> replaced;
    for (auto [op, candidate] : candidates) {
      if (replaced.contains(op))
        continue;
      Region region(candidate);
      if (!region.grow())
        continue;
      SmallVector<Operation *> old(region.getOps());
      if (region.tile(elements, rows))
        replaced.insert_range(old);
    }
  }
};
} // namespace
} // namespace mlir::binade
