//===- OnlineSoftmax.cpp - Softmax in one pass over the keys --------------===//
//
// References of plain scores are in units of powers of two, so that an exponent
// is one multiply-add. References of scores that a mask, a bias or a soft cap
// changes are scores: the difference between two huge ones is exact then.
//
//===----------------------------------------------------------------------===//

#include "OnlineSoftmax.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cfloat>
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using enum AttentionBlock::Which;

SmallVector<Value> OnlineSoftmax::start() const {
  // A query may see no key, so that its reference is finite, and the difference
  // of a score of -infinity and the reference is -infinity.
  SmallVector<Value> values(sets, block.splat(-FLT_MAX, 2));
  values.append(sets, block.splat(0, 2));
  return values;
}

static bool changesScores(const AttentionBlock &block) {
  return block.attention.extras.changeScores();
}

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

OnlineSoftmax::Scores OnlineSoftmax::computeScores(bool isMasked) {
  SmallVector<Value> hidden(sets,
                            block.splat(-INFINITY, AttentionBlock::kScores));
  Scores scores;
  for (int64_t chunk = 0; chunk < block.countChunks(); ++chunk)
    scores.push_back(block.unlessHidden(chunk, isMasked, hidden, [&] {
      SmallVector<Value> own = block.multiplyRows(query, Key, chunk);
      for (auto [set, ofSet] : llvm::enumerate(own))
        ofSet =
            changesScores(block)
                ? block.finishScores(ofSet, static_cast<int64_t>(set), chunk)
                      .scores
                : turn(block, ofSet);
      if (isMasked)
        for (auto [set, ofSet] : llvm::enumerate(own))
          ofSet = block.mask(ofSet, static_cast<int64_t>(set), chunk);
      return own;
    }));
  return scores;
}

void OnlineSoftmax::moveReferences(ArrayRef<SmallVector<Value>> scores,
                                   Softmax &softmax) {
  constexpr double kRange = 8;
  double range = changesScores(block) ? kRange * std::numbers::ln2 : kRange;
  SmallVector<Value> highest, isBeyond;
  double factor = getFactor(block.attention);
  for (int64_t set = 0; set < sets; ++set) {
    Value own = scores.front()[set];
    for (const SmallVector<Value> &chunk : scores.drop_front())
      own = block.maximize(own, chunk[set]);
    own = block.maximizeLanes(block.maximizeRows(own));
    if (!changesScores(block))
      own = block.scale(own, factor);
    highest.push_back(own);
    isBeyond.push_back(arith::CmpFOp::create(
        b, arith::CmpFPredicate::OGT, own,
        block.add(softmax.references[set], block.splat(range, 2))));
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
      Value difference = block.subtract(softmax.references[set], reference);
      if (changesScores(block))
        difference = block.scale(difference, std::numbers::log2e);
      Value power = block.exp2(difference);
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

OnlineSoftmax::Scores OnlineSoftmax::visit(Softmax &softmax, bool isMasked) {
  Scores scores = computeScores(isMasked);
  moveReferences(scores, softmax);
  Value factor =
      block.splat(getFactor(block.attention), AttentionBlock::kScores);
  SmallVector<Value> negative, partial(sets);
  for (Value reference : softmax.references)
    negative.push_back(block.broadcastRows(block.scale(reference, -1)));
  for (SmallVector<Value> &chunk : scores)
    for (auto [set, own] : llvm::enumerate(chunk)) {
      Value exponents =
          changesScores(block)
              ? block.scale(block.add(own, negative[set]), std::numbers::log2e)
              : block.fma(own, factor, negative[set]);
      own = block.exp2(exponents);
      partial[set] = partial[set] ? block.add(partial[set], own) : own;
    }
  for (auto [total, own] : llvm::zip(softmax.totals, partial))
    total = block.add(total, block.sumRows(own));
  return scores;
}
