//===- Gradients.cpp - Gradients of attention as kernels ------------------===//
//
// Two kernels recompute the scores, so that one thread computes each sum: one
// kernel iterates over the keys for its queries, the other one over the queries
// for its keys. Without atomic additions, every run computes the same bits.
//
//===----------------------------------------------------------------------===//

#include "Gradients.h"
#include "AttentionBlock.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr int64_t kRows = AttentionBlock::kRows;
static constexpr int64_t kChunk = AttentionBlock::kChunk;

namespace {
/// Probabilities and score gradients of a chunk.
struct Chunk {
  Value p, ds; ///< f32
};
} // namespace

/// `lse` and `inner` are -lse and -scale sum(dy y), broadcast to the scores.
static Chunk computeChunk(AttentionBlock &block, Value scores, Value dp,
                          Value lse, Value inner, Value otherTile,
                          int64_t chunk, bool isMasked) {
  Value factor = block.splat(block.attention.scale, AttentionBlock::kScores);
  Value exponents = block.fma(scores, factor, lse);
  if (isMasked)
    exponents = block.mask(exponents, otherTile, chunk);
  Value p = block.exp(exponents);
  return {p, arith::MulFOp::create(block.b, p, block.fma(dp, factor, inner))};
}

void mlir::binade::emitQueryGradient(ImplicitLocOpBuilder &b,
                                     const GpuAttention &attention,
                                     StringRef name) {
  using enum AttentionBlock::Which;
  OpBuilder::InsertionGuard outside(b);
  AttentionBlock block(b, attention, name, /*hasQueries=*/true);
  SharedTile keys = block.allocate(attention.depth),
             values = block.allocate(attention.width);
  block.fill({{Query, &keys}, {Dy, &values}}, block.firstRow);
  SmallVector<Value> query = block.loadOwn(keys), dy = block.loadOwn(values);
  Value sums = block.multiplyOwn(Dy, Y);
  block.storeRows(Inner, sums);
  Value inner = block.broadcastRows(block.scale(sums, -attention.scale)),
        lse = block.broadcastRows(block.scale(block.loadRows(Lse), -1));
  auto step = [&](Value tile, ValueRange before, bool isMasked) {
    block.fill({{Key, &keys}, {Values, &values}}, block.at.scale(tile, kRows));
    SmallVector<Value> dquery(before);
    for (int64_t chunk = 0; chunk < AttentionBlock::kChunks; ++chunk) {
      Chunk own = computeChunk(block, block.multiplyRows(query, keys, chunk),
                               block.multiplyRows(dy, values, chunk), lse,
                               inner, tile, chunk, isMasked);
      block.addRows(block.round(own.ds), keys, chunk, dquery);
    }
    return dquery;
  };
  block.storeSums(Dquery,
                  block.forEachTile(block.startSums(attention.depth), step));
  block.finish();
}

void mlir::binade::emitKeyGradients(ImplicitLocOpBuilder &b,
                                    const GpuAttention &attention,
                                    StringRef name) {
  using enum AttentionBlock::Which;
  OpBuilder::InsertionGuard outside(b);
  AttentionBlock block(b, attention, name, /*hasQueries=*/false);
  SharedTile queries = block.allocate(attention.depth),
             dys = block.allocate(attention.width);
  // -lse of each query, followed by -scale sum(dy y) of each query.
  Value numbers = block.allocateNumbers(2 * kRows);
  static_assert(AttentionBlock::kThreads == 2 * kRows);
  block.fill({{Key, &queries}, {Values, &dys}}, block.firstRow);
  SmallVector<Value> key = block.loadOwn(queries), value = block.loadOwn(dys);
  auto [isInner, place] = block.at.divide(block.thread, kRows);
  Value isLse = block.at.isBelow(isInner, 1);
  SmallVector<Value> start = block.startSums(attention.depth);
  size_t depthSums = start.size();
  llvm::append_range(start, block.startSums(attention.width));
  auto step = [&, place = place](Value tile, ValueRange before, bool isMasked) {
    Value first = block.at.scale(tile, kRows), row = block.at.add(first, place);
    Value lse = arith::NegFOp::create(b, block.loadRow(Lse, row));
    Value factor = arith::ConstantOp::create(
        b, b.getF32FloatAttr(static_cast<float>(-attention.scale)));
    Value inner = arith::MulFOp::create(b, block.loadRow(Inner, row), factor);
    Value number = arith::SelectOp::create(b, isLse, lse, inner);
    block.fill({{Query, &queries}, {Dy, &dys}}, first, [&] {
      memref::StoreOp::create(b, number, numbers, block.thread);
    });
    SmallVector<Value> sums(before);
    auto dkey = MutableArrayRef(sums).take_front(depthSums),
         dvalue = MutableArrayRef(sums).drop_front(depthSums);
    for (int64_t chunk = 0; chunk < AttentionBlock::kChunks; ++chunk) {
      Chunk own =
          computeChunk(block, block.multiplyRows(key, queries, chunk),
                       block.multiplyRows(value, dys, chunk),
                       block.broadcastColumns(numbers, chunk * kChunk),
                       block.broadcastColumns(numbers, kRows + chunk * kChunk),
                       tile, chunk, isMasked);
      block.addRows(block.round(own.p), dys, chunk, dvalue);
      block.addRows(block.round(own.ds), queries, chunk, dkey);
    }
    return sums;
  };
  SmallVector<Value> sums = block.forEachHead(start, [&](ValueRange before) {
    return block.forEachTile(before, step);
  });
  block.storeSums(Dkey, ArrayRef(sums).take_front(depthSums));
  block.storeSums(Dvalue, ArrayRef(sums).drop_front(depthSums));
  block.finish();
}
