//===- EmitAttention.cpp - Attention as kernels ---------------------------===//
//
// One pass over the keys. Exponentials are powers of two relative to a
// reference of each query, which is at most 8 below the largest score so far,
// in units of powers of two: the sums are multiplied by a power of two only
// when a score exceeds it by more, which few tiles after the first do.
//
//===----------------------------------------------------------------------===//

#include "../EmitText.h"
#include "AttentionBlock.h"
#include "Gradients.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <cfloat>
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using enum AttentionBlock::Which;

namespace {
/// What a thread knows of its queries: for each set of rows, the reference and
/// the thread's part of the sum of exponentials, then the weighted sums of
/// values.
struct Softmax {
  explicit Softmax(ValueRange all, int64_t sets)
      : references(all.take_front(sets)), totals(all.slice(sets, sets)),
        sums(all.drop_front(2 * sets)) {}

  SmallVector<Value> pack() const {
    SmallVector<Value> all(references);
    llvm::append_range(all, totals);
    llvm::append_range(all, sums);
    return all;
  }

  SmallVector<Value> references, totals, sums;
};

/// Emits the steps of a block.
class ForwardBlock {
public:
  explicit ForwardBlock(AttentionBlock &block)
      : block(block), b(block.b), sets(block.shape.sets) {}

  void emit();

private:
  /// Returns the scores of the current tile by chunk and set, -infinity where
  /// the mask hides them.
  SmallVector<SmallVector<Value>> computeScores(bool isMasked);
  /// Moves the references if a score of the tile is too large for them.
  void moveReferences(ArrayRef<SmallVector<Value>> scores, Softmax &softmax);
  SmallVector<Value> visitTile(ValueRange before, bool isMasked);
  void store(const Softmax &softmax);

  AttentionBlock &block;
  ImplicitLocOpBuilder &b;
  int64_t sets;
  SmallVector<Value> query;
};
} // namespace

/// Returns the factor from products of queries and keys to exponents of two,
/// which is positive: `turn` turns products such that the largest one belongs
/// to the largest score.
static double getFactor(const GpuAttention &attention) {
  return attention.scale == 0
             ? 1
             : std::fabs(attention.scale) * std::numbers::log2e;
}

static Value turn(AttentionBlock &block, Value products) {
  double scale = block.attention.scale;
  return scale > 0 ? products : block.scale(products, scale == 0 ? 0 : -1);
}

SmallVector<SmallVector<Value>> ForwardBlock::computeScores(bool isMasked) {
  SmallVector<Value> hidden(sets,
                            block.splat(-INFINITY, AttentionBlock::kScores));
  SmallVector<SmallVector<Value>> scores;
  for (int64_t chunk = 0; chunk < block.countChunks(); ++chunk)
    scores.push_back(block.unlessHidden(chunk, isMasked, hidden, [&] {
      SmallVector<Value> own = block.multiplyRows(query, Key, chunk);
      for (Value &ofSet : own)
        ofSet = turn(block, ofSet);
      if (isMasked)
        for (auto [set, ofSet] : llvm::enumerate(own))
          ofSet = block.mask(ofSet, static_cast<int64_t>(set), chunk);
      return own;
    }));
  return scores;
}

void ForwardBlock::moveReferences(ArrayRef<SmallVector<Value>> scores,
                                  Softmax &softmax) {
  constexpr double kRange = 8;
  SmallVector<Value> highest, isBeyond;
  double factor = getFactor(block.attention);
  for (int64_t set = 0; set < sets; ++set) {
    Value own = scores.front()[set];
    for (const SmallVector<Value> &chunk : scores.drop_front())
      own = block.maximize(own, chunk[set]);
    own = block.scale(block.maximizeLanes(block.maximizeRows(own)), factor);
    highest.push_back(own);
    isBeyond.push_back(arith::CmpFOp::create(
        b, arith::CmpFPredicate::OGT, own,
        block.add(softmax.references[set], block.splat(kRange, 2))));
  }
  SmallVector<Value> before = softmax.pack();
  auto branch =
      scf::IfOp::create(b, TypeRange(ValueRange(before)), block.isAny(isBeyond),
                        /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, before);
    b.setInsertionPointToStart(branch.thenBlock());
    Softmax moved = softmax;
    size_t perSet = softmax.sums.size() / sets;
    for (int64_t set = 0; set < sets; ++set) {
      Value &reference = moved.references[set];
      reference = block.maximize(softmax.references[set], highest[set]);
      Value power =
          block.exp2(block.subtract(softmax.references[set], reference));
      moved.totals[set] = block.multiply(softmax.totals[set], power);
      Value ofRow[] = {vector::ExtractOp::create(b, power, int64_t(0)),
                       vector::ExtractOp::create(b, power, int64_t(1))};
      for (size_t i = 0; i < perSet; ++i) {
        Value &sum = moved.sums[set * perSet + i];
        sum = block.multiply(sum, ofRow[i / 2 % 2]);
      }
    }
    scf::YieldOp::create(b, moved.pack());
  }
  softmax = Softmax(branch.getResults(), sets);
}

SmallVector<Value> ForwardBlock::visitTile(ValueRange before, bool isMasked) {
  Softmax softmax(before, sets);
  SmallVector<SmallVector<Value>> scores = computeScores(isMasked);
  moveReferences(scores, softmax);
  Value factor =
      block.splat(getFactor(block.attention), AttentionBlock::kScores);
  SmallVector<Value> negative, partial(sets);
  for (Value reference : softmax.references)
    negative.push_back(block.broadcastRows(block.scale(reference, -1)));
  for (SmallVector<Value> &chunk : scores)
    for (auto [set, own] : llvm::enumerate(chunk)) {
      own = block.exp2(block.fma(own, factor, negative[set]));
      partial[set] = partial[set] ? block.add(partial[set], own) : own;
    }
  for (auto [total, own] : llvm::zip(softmax.totals, partial))
    total = block.add(total, block.sumRows(own));
  for (auto [number, chunk] : llvm::enumerate(scores)) {
    auto weights =
        llvm::map_to_vector(chunk, [&](Value own) { return block.round(own); });
    auto index = static_cast<int64_t>(number);
    softmax.sums = block.unlessHidden(index, isMasked, softmax.sums, [&] {
      SmallVector<Value> sums = softmax.sums;
      block.addRows(weights, Values, index, sums);
      return sums;
    });
  }
  return softmax.pack();
}

void ForwardBlock::store(const Softmax &softmax) {
  // ln(2), in two parts: the product with a reference is rounded only once.
  constexpr float kHigh = std::numbers::ln2_v<float>;
  constexpr double kLow = std::numbers::ln2 - kHigh;
  SmallVector<Value> results;
  size_t perSet = softmax.sums.size() / sets;
  for (int64_t set = 0; set < sets; ++set) {
    Value total = block.sumLanes(softmax.totals[set]),
          reference = softmax.references[set];
    Value inverse = arith::DivFOp::create(b, block.splat(1, 2), total);
    Value lse = block.fma(reference, block.splat(kLow, 2),
                          math::LogOp::create(b, total));
    lse = block.fma(reference, block.splat(kHigh, 2), lse);
    // If all scores are -infinity, the sum is 0, and the result is NaN.
    block.storeRows(Lse, set, block.fma(inverse, block.splat(0, 2), lse));
    Value ofRow[] = {vector::ExtractOp::create(b, inverse, int64_t(0)),
                     vector::ExtractOp::create(b, inverse, int64_t(1))};
    for (size_t i = 0; i < perSet; ++i)
      results.push_back(
          block.multiply(softmax.sums[set * perSet + i], ofRow[i / 2 % 2]));
  }
  block.storeSums(Y, results);
}

void ForwardBlock::emit() {
  query = block.loadOwn(Query);
  // A query may see no key, so that its reference is finite, and the difference
  // of a score of -infinity and the reference is -infinity.
  SmallVector<Value> start(sets, block.splat(-FLT_MAX, 2));
  start.append(sets, block.splat(0, 2));
  llvm::append_range(start, block.startSums(block.attention.width, sets));
  store(Softmax(block.forEachTile({Key, Values}, start,
                                  [&](ValueRange before, bool isMasked) {
                                    return visitTile(before, isMasked);
                                  }),
                sets));
  block.finish();
}

static void emitForward(ImplicitLocOpBuilder &b, const GpuAttention &attention,
                        StringRef name) {
  OpBuilder::InsertionGuard outside(b);
  bool areNarrow = std::max(attention.depth, attention.width) <= 64;
  AttentionBlock::Shape shape{.hasQueries = true, .blocks = areNarrow ? 3 : 2};
  if (attention.queries > 64)
    shape.sets = 2;
  AttentionBlock block(b, attention, name, shape);
  ForwardBlock(block).emit();
}

std::string mlir::binade::printAttention(const GpuAttention &attention,
                                         StringRef name) {
  return printKernelModule([&](ImplicitLocOpBuilder &b) {
    if (!attention.areGradients())
      return emitForward(b, attention, name);
    emitQueryGradient(b, attention, name);
    emitKeyGradients(b, attention, name.split('.').first.str() + ".finish");
  });
}

int64_t mlir::binade::getWorkspaceBytes(const GpuAttention &attention) {
  if (!attention.areGradients())
    return 0;
  return AttentionBlock::kFactors * llvm::product_of(attention.batch) *
         attention.queries * int64_t(sizeof(float));
}
