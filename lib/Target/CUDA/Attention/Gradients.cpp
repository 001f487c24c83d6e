//===- Gradients.cpp - Gradients of attention as kernels ------------------===//
//
// Each kernel recomputes the scores, so that one thread computes each sum: the
// first iterates over the keys for its queries, the second over the queries for
// its keys, and those of biases (BiasGradient.cpp) over the heads for a tile of
// scores. Without atomic additions, every run computes the same bits. All draw
// dropout again.
//
//===----------------------------------------------------------------------===//

#include "Gradients.h"
#include "OnlineSoftmax.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using enum AttentionBlock::Which;

/// Returns the factor that sum(dy y) is multiplied by before it is stored: the
/// scale, unless gradients of scores are results themselves.
static double getInnerScale(const GpuAttention &attention) {
  return attention.biasGradients.empty() ? attention.scale : 1;
}

Chunk mlir::binade::computeChunk(AttentionBlock &block, Value products,
                                 Value dp, const QueryFactors &factors,
                                 int64_t chunk, bool isMasked) {
  const GpuAttention::Extras &extras = block.attention.extras;
  ImplicitLocOpBuilder &b = block.b;
  double scale = block.attention.scale;
  auto splat = [&](double value) {
    return block.splat(value, AttentionBlock::kScores);
  };
  AttentionBlock::Scores scores;
  Value exponents;
  if (extras.changeScores()) {
    scores = block.finishScores(products, /*set=*/0, chunk);
    exponents = block.fma(block.subtract(scores.scores, factors.reference),
                          splat(std::numbers::log2e), factors.exponent);
  } else {
    exponents = block.fma(products, splat(scale * std::numbers::log2e),
                          factors.exponent);
  }
  if (isMasked)
    exponents = block.mask(exponents, /*set=*/0, chunk);
  auto hideMasked = [&](Value x) -> Value {
    return scores.visible
               ? arith::SelectOp::create(b, scores.visible, x, splat(0))
               : x;
  };
  Value p = block.exp2(exponents), weights = p;
  if (extras.zeroNan)
    weights = arith::SelectOp::create(
        b, arith::CmpFOp::create(b, arith::CmpFPredicate::ORD, p, p), p,
        splat(0));
  Value kept = block.drawKept(/*set=*/0, chunk);
  weights = block.drop(weights, kept);
  dp = block.drop(dp, kept);
  double innerScale = getInnerScale(block.attention);
  Value ds =
      block.multiply(p, block.fma(dp, splat(innerScale * block.getKeptFactor()),
                                  factors.inner));
  Value dscores;
  if (!block.attention.biasGradients.empty()) {
    dscores = hideMasked(ds);
    ds = block.scale(ds, scale);
  }
  if (scores.tangents) {
    Value square = block.multiply(scores.tangents, scores.tangents);
    ds = block.multiply(ds, block.subtract(splat(1), square));
  }
  return {weights, hideMasked(ds), dscores};
}

/// Returns `lse`, or 0 where it is -infinity, so that the exponents of
/// -infinity stay -infinity and probabilities are 0.
static Value replaceHidden(AttentionBlock &block, Value lse) {
  if (!block.attention.extras.zeroHidden)
    return lse;
  ImplicitLocOpBuilder &b = block.b;
  Value isHidden = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, lse,
                                         block.splat(-INFINITY, 2));
  return arith::SelectOp::create(b, isHidden, block.splat(0, 2), lse);
}

/// Returns -lse log2(e) of the thread's rows. log2(e) has two parts, so that
/// the product is rounded only once.
static Value computeExponent(AttentionBlock &block) {
  constexpr float kHigh = std::numbers::log2e_v<float>;
  constexpr double kLow = std::numbers::log2e - kHigh;
  Value lse = replaceHidden(block, block.loadRows(Lse, /*set=*/0));
  return block.fma(lse, block.splat(-kHigh, 2), block.scale(lse, -kLow));
}

/// Computes the sums of exponentials of the block's queries again, relative to
/// their references: the exponent is -log2 of the sum.
static QueryFactors sumExponentials(AttentionBlock &block, ValueRange query) {
  ImplicitLocOpBuilder &b = block.b;
  OnlineSoftmax softmax(block, query);
  Softmax result(block.forEachTile({Key}, softmax.start(),
                                   [&](ValueRange before, bool isMasked) {
                                     Softmax state(before, /*sets=*/1);
                                     softmax.visit(state, isMasked);
                                     return state.pack();
                                   }),
                 /*sets=*/1);
  Value total = block.sumLanes(result.totals.front());
  Value exponent =
      block.scale(math::LogOp::create(b, total), -std::numbers::log2e);
  if (block.attention.extras.zeroHidden) {
    Value isHidden = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, total,
                                           block.splat(0, 2));
    exponent =
        arith::SelectOp::create(b, isHidden, block.splat(0, 2), exponent);
  }
  return {exponent, Value(), result.references.front()};
}

/// Returns the factors of the thread's rows, without `inner`. Exponents of
/// changed scores are relative to `lse`, or, if it may not be exact enough for
/// a query of the block, to the sum of exponentials.
static QueryFactors computeFactors(AttentionBlock &block, ValueRange query) {
  const GpuAttention::Extras &extras = block.attention.extras;
  ImplicitLocOpBuilder &b = block.b;
  if (!extras.changeScores())
    return {computeExponent(block), Value(), Value()};
  Value zero = block.splat(0, 2),
        lse = replaceHidden(block, block.loadRows(Lse, /*set=*/0));
  if (extras.haveExactStatistic())
    return {zero, Value(), lse};
  auto branch = scf::IfOp::create(
      b, TypeRange{zero.getType(), zero.getType()},
      block.isAnyRowBeyond(Lse, GpuAttention::kMaxExactStatistic),
      /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, ValueRange{zero, lse});
    b.setInsertionPointToStart(branch.thenBlock());
    QueryFactors again = sumExponentials(block, query);
    scf::YieldOp::create(b, ValueRange{again.exponent, again.reference});
  }
  return {branch.getResult(0), Value(), branch.getResult(1)};
}

/// Returns the blocks that a multiprocessor should hold, `most` for narrow
/// heads of plain attention.
static int32_t countBlocks(const GpuAttention &attention, int32_t most) {
  bool areNarrow = std::max(attention.depth, attention.width) <= 64;
  return areNarrow ? most - attention.extras.needRegisters() : 2;
}

void mlir::binade::emitQueryGradient(ImplicitLocOpBuilder &b,
                                     const GpuAttention &attention,
                                     StringRef name) {
  OpBuilder::InsertionGuard outside(b);
  AttentionBlock block(
      b, attention, name,
      {.hasQueries = true, .blocks = countBlocks(attention, /*most=*/4)});
  SmallVector<Value> query = block.loadOwn(Query), dy = block.loadOwn(Dy);
  QueryFactors factors = computeFactors(block, query);
  factors.inner =
      block.scale(block.multiplyOwn(Dy, Y, 0), -getInnerScale(attention));
  block.storeRows(Factors, 0, factors.exponent, AttentionBlock::Exponent);
  block.storeRows(Factors, 0, factors.inner, AttentionBlock::Inner);
  if (factors.reference)
    block.storeRows(Factors, 0, factors.reference, AttentionBlock::Reference);
  factors = factors.map([&](Value rows) { return block.broadcastRows(rows); });
  auto step = [&](ValueRange before, bool isMasked) {
    SmallVector<Value> dquery(before);
    for (int64_t chunk = 0; chunk < block.countChunks(); ++chunk)
      dquery = block.unlessHidden(chunk, isMasked, dquery, [&] {
        Chunk own =
            computeChunk(block, block.multiplyRows(query, Key, chunk).front(),
                         block.multiplyRows(dy, Values, chunk).front(), factors,
                         chunk, isMasked);
        SmallVector<Value> sums = dquery;
        block.addRows(block.round(own.products), Key, chunk, sums);
        return sums;
      });
    return dquery;
  };
  block.storeSums(Dquery,
                  block.forEachTile({Key, Values},
                                    block.startSums(attention.depth, 1), step));
  block.finish();
}

/// Returns the factors of the queries of a chunk of the current tile.
static QueryFactors loadFactors(AttentionBlock &block, int64_t chunk) {
  auto load = [&](AttentionBlock::Factor factor) {
    return block.broadcastColumns(factor, chunk);
  };
  QueryFactors factors{load(AttentionBlock::Exponent),
                       load(AttentionBlock::Inner), Value()};
  if (block.attention.extras.changeScores())
    factors.reference = load(AttentionBlock::Reference);
  return factors;
}

void mlir::binade::emitKeyGradients(ImplicitLocOpBuilder &b,
                                    const GpuAttention &attention,
                                    StringRef name) {
  OpBuilder::InsertionGuard outside(b);
  AttentionBlock block(
      b, attention, name,
      {.hasQueries = false, .blocks = countBlocks(attention, /*most=*/3)});
  SmallVector<Value> key = block.loadOwn(Key), value = block.loadOwn(Values);
  SmallVector<Value> start = block.startSums(attention.depth, 1);
  size_t depthSums = start.size();
  llvm::append_range(start, block.startSums(attention.width, 1));
  auto step = [&](ValueRange before, bool isMasked) {
    SmallVector<Value> all(before);
    for (int64_t chunk = 0; chunk < block.countChunks(); ++chunk)
      all = block.unlessHidden(chunk, isMasked, all, [&] {
        Value products = block.multiplyRows(key, Query, chunk).front(),
              dp = block.multiplyRows(value, Dy, chunk).front();
        Chunk own = computeChunk(block, products, dp, loadFactors(block, chunk),
                                 chunk, isMasked);
        SmallVector<Value> sums = all;
        block.addRows(block.round(own.weights), Dy, chunk,
                      MutableArrayRef(sums).drop_front(depthSums));
        block.addRows(block.round(own.products), Query, chunk,
                      MutableArrayRef(sums).take_front(depthSums));
        return sums;
      });
    return all;
  };
  SmallVector<Value> sums = block.forEachHead(start, [&](ValueRange before) {
    return block.forEachTile({Query, Dy}, before, step);
  });
  if (attention.extras.dropout) {
    Value factor = arith::ConstantOp::create(
        b, b.getF32FloatAttr(static_cast<float>(block.getKeptFactor())));
    for (Value &sum : MutableArrayRef(sums).drop_front(depthSums))
      sum = block.multiply(sum, factor);
  }
  block.storeSums(Dkey, ArrayRef(sums).take_front(depthSums));
  block.storeSums(Dvalue, ArrayRef(sums).drop_front(depthSums));
  block.finish();
}
