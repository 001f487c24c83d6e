//===- EmitAttention.cpp - Attention as kernels ---------------------------===//
//
// Probabilities are rounded after normalization, so that the sum of a query's
// exponentials must be known before the second matmul. A first pass over the
// keys computes it, and a second pass recomputes the scores.
//
//===----------------------------------------------------------------------===//

#include "../EmitText.h"
#include "AttentionBlock.h"
#include "Gradients.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <cfloat>

using namespace mlir;
using namespace mlir::binade;

static constexpr int64_t kChunks = AttentionBlock::kChunks;

/// Returns the logarithms of the sums of exponentials of the block's own rows.
/// Each thread has maxima and sums of its own until the end.
static Value computeLse(AttentionBlock &block, ArrayRef<Value> query,
                        const SharedTile &keys) {
  ImplicitLocOpBuilder &b = block.b;
  auto maximize = [&](Value x, Value y) -> Value {
    return arith::MaximumFOp::create(b, x, y);
  };
  auto subtract = [&](Value x, Value y) -> Value {
    return arith::SubFOp::create(b, x, y);
  };
  auto step = [&](Value tile, ValueRange before, bool isMasked) {
    block.fill({{AttentionBlock::Key, &keys}},
               block.at.scale(tile, AttentionBlock::kRows));
    SmallVector<Value> scores;
    for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
      Value own = block.scale(block.multiplyRows(query, keys, chunk),
                              block.attention.scale);
      scores.push_back(isMasked ? block.mask(own, tile, chunk) : own);
    }
    Value highest = scores.front();
    for (Value own : ArrayRef(scores).drop_front())
      highest = maximize(highest, own);
    Value maximum = maximize(before[0], block.maximizeRows(highest));
    Value perScore = block.broadcastRows(maximum), sum;
    for (Value own : scores) {
      Value e = block.exp(subtract(own, perScore));
      sum = sum ? arith::AddFOp::create(b, sum, e).getResult() : e;
    }
    Value total = block.fma(before[1], block.exp(subtract(before[0], maximum)),
                            block.sumRows(sum));
    return SmallVector<Value>{maximum, total};
  };
  // A thread may see no key, so that its initial maximum is finite and the
  // differences are too.
  SmallVector<Value> own =
      block.forEachTile({block.splat(-FLT_MAX, 2), block.splat(0, 2)}, step);
  Value maximum = block.maximizeLanes(own[0]);
  Value total = block.sumLanes(
      arith::MulFOp::create(b, own[1], block.exp(subtract(own[0], maximum))));
  return arith::AddFOp::create(b, maximum, math::LogOp::create(b, total));
}

static void emitForward(ImplicitLocOpBuilder &b, const GpuAttention &attention,
                        StringRef name) {
  OpBuilder::InsertionGuard outside(b);
  AttentionBlock block(b, attention, name, /*hasQueries=*/true);
  SharedTile keys = block.allocate(attention.depth),
             values = block.allocate(attention.width);
  block.fill({{AttentionBlock::Query, &keys}}, block.firstRow);
  SmallVector<Value> query = block.loadOwn(keys);
  Value lse = computeLse(block, query, keys);
  Value negative = block.broadcastRows(block.scale(lse, -1)),
        factor = block.splat(attention.scale, AttentionBlock::kScores);
  auto step = [&](Value tile, ValueRange before, bool isMasked) {
    block.fill(
        {{AttentionBlock::Key, &keys}, {AttentionBlock::Values, &values}},
        block.at.scale(tile, AttentionBlock::kRows));
    SmallVector<Value> sums(before);
    for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
      Value scores =
          block.fma(block.multiplyRows(query, keys, chunk), factor, negative);
      if (isMasked)
        scores = block.mask(scores, tile, chunk);
      block.addRows(block.round(block.exp(scores)), values, chunk, sums);
    }
    return sums;
  };
  block.storeSums(AttentionBlock::Y,
                  block.forEachTile(block.startSums(attention.width), step));
  block.storeRows(AttentionBlock::Lse, lse);
  block.finish();
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
  return llvm::product_of(attention.batch) * attention.queries *
         int64_t(sizeof(float));
}
