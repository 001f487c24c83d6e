//===- Gradients.cpp - Gradients of attention as kernels ------------------===//
//
// Two kernels recompute the scores, so that one thread computes each sum: one
// kernel iterates over the keys for its queries, the other one over the queries
// for its keys. Without atomic additions, every run computes the same bits.
//
//===----------------------------------------------------------------------===//

#include "Gradients.h"
#include "AttentionBlock.h"
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using enum AttentionBlock::Which;

namespace {
/// Probabilities and score gradients of a chunk.
struct Chunk {
  Value p, ds; ///< f32
};
} // namespace

/// `exponent` and `inner` are the factors of the queries, broadcast to the
/// scores.
static Chunk computeChunk(AttentionBlock &block, Value scores, Value dp,
                          Value exponent, Value inner, int64_t chunk,
                          bool isMasked) {
  double scale = block.attention.scale;
  auto splat = [&](double value) {
    return block.splat(value, AttentionBlock::kScores);
  };
  Value exponents =
      block.fma(scores, splat(scale * std::numbers::log2e), exponent);
  if (isMasked)
    exponents = block.mask(exponents, /*set=*/0, chunk);
  Value p = block.exp2(exponents);
  return {p, block.multiply(p, block.fma(dp, splat(scale), inner))};
}

/// Returns -lse log2(e) of the thread's rows. log2(e) has two parts, so that
/// the product is rounded only once.
static Value computeExponent(AttentionBlock &block) {
  constexpr float kHigh = std::numbers::log2e_v<float>;
  constexpr double kLow = std::numbers::log2e - kHigh;
  Value lse = block.loadRows(Lse, /*set=*/0);
  return block.fma(lse, block.splat(-kHigh, 2), block.scale(lse, -kLow));
}

void mlir::binade::emitQueryGradient(ImplicitLocOpBuilder &b,
                                     const GpuAttention &attention,
                                     StringRef name) {
  OpBuilder::InsertionGuard outside(b);
  bool areNarrow = std::max(attention.depth, attention.width) <= 64;
  AttentionBlock block(b, attention, name,
                       {.hasQueries = true, .blocks = areNarrow ? 4 : 2});
  SmallVector<Value> query = block.loadOwn(Query), dy = block.loadOwn(Dy);
  Value exponent = computeExponent(block),
        inner = block.scale(block.multiplyOwn(Dy, Y, 0), -attention.scale);
  block.storeRows(Factors, 0, exponent, AttentionBlock::Exponent);
  block.storeRows(Factors, 0, inner, AttentionBlock::Inner);
  exponent = block.broadcastRows(exponent);
  inner = block.broadcastRows(inner);
  auto step = [&](ValueRange before, bool isMasked) {
    SmallVector<Value> dquery(before);
    for (int64_t chunk = 0; chunk < block.countChunks(); ++chunk)
      dquery = block.unlessHidden(chunk, isMasked, dquery, [&] {
        Chunk own =
            computeChunk(block, block.multiplyRows(query, Key, chunk).front(),
                         block.multiplyRows(dy, Values, chunk).front(),
                         exponent, inner, chunk, isMasked);
        SmallVector<Value> sums = dquery;
        block.addRows(block.round(own.ds), Key, chunk, sums);
        return sums;
      });
    return dquery;
  };
  block.storeSums(Dquery,
                  block.forEachTile({Key, Values},
                                    block.startSums(attention.depth, 1), step));
  block.finish();
}

void mlir::binade::emitKeyGradients(ImplicitLocOpBuilder &b,
                                    const GpuAttention &attention,
                                    StringRef name) {
  OpBuilder::InsertionGuard outside(b);
  bool areNarrow = std::max(attention.depth, attention.width) <= 64;
  AttentionBlock block(b, attention, name,
                       {.hasQueries = false, .blocks = areNarrow ? 3 : 2});
  SmallVector<Value> key = block.loadOwn(Key), value = block.loadOwn(Values);
  SmallVector<Value> start = block.startSums(attention.depth, 1);
  size_t depthSums = start.size();
  llvm::append_range(start, block.startSums(attention.width, 1));
  auto step = [&](ValueRange before, bool isMasked) {
    SmallVector<Value> all(before);
    for (int64_t chunk = 0; chunk < block.countChunks(); ++chunk)
      all = block.unlessHidden(chunk, isMasked, all, [&] {
        Chunk own = computeChunk(
            block, block.multiplyRows(key, Query, chunk).front(),
            block.multiplyRows(value, Dy, chunk).front(),
            block.broadcastColumns(AttentionBlock::Exponent, chunk),
            block.broadcastColumns(AttentionBlock::Inner, chunk), chunk,
            isMasked);
        SmallVector<Value> sums = all;
        block.addRows(block.round(own.p), Dy, chunk,
                      MutableArrayRef(sums).drop_front(depthSums));
        block.addRows(block.round(own.ds), Query, chunk,
                      MutableArrayRef(sums).take_front(depthSums));
        return sums;
      });
    return all;
  };
  SmallVector<Value> sums = block.forEachHead(start, [&](ValueRange before) {
    return block.forEachTile({Query, Dy}, before, step);
  });
  block.storeSums(Dkey, ArrayRef(sums).take_front(depthSums));
  block.storeSums(Dvalue, ArrayRef(sums).drop_front(depthSums));
  block.finish();
}
