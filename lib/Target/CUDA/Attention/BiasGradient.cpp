//===- BiasGradient.cpp - Gradient of an attention bias as a kernel -------===//
//
// A block computes a tile of the gradient of a bias: the sum of the gradients
// of scores over the heads, and perhaps the queries or the keys, along which
// the bias is broadcast. It recomputes the scores of one head after the other,
// so that the order of the sum is fixed: first by head, query tile and key tile
// within a thread, then over the lanes of a warp, and over the warps.
//
//===----------------------------------------------------------------------===//

#include "../Contraction/Epilogue.h"
#include "Gradients.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;
using enum AttentionBlock::Which;

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

SmallVector<Value> AttentionBlock::unlessAllHidden(ValueRange start,
                                                   Body body) {
  if (!attention.causal || !hasOwnQueries() || !hasOwnKeys())
    return body();
  Value end = at.scale(at.add(tile, 1), countOwnRows() / tileRows);
  auto branch = scf::IfOp::create(
      b, start.getTypes(),
      arith::CmpIOp::create(b, arith::CmpIPredicate::ult, keyTile, end),
      /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, start);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, body());
  return llvm::to_vector_of<Value>(branch.getResults());
}

SmallVector<Value> AttentionBlock::forEachQueryTile(ValueRange start,
                                                    ChainedBody body) {
  if (hasOwnQueries())
    return body(start);
  // Queries before the block's own keys see none of them.
  Value begin = at.constant(0);
  if (attention.causal && hasOwnKeys())
    begin = at.divide(keyTile, countOwnRows() / tileRows).first;
  auto loop =
      scf::ForOp::create(b, begin, at.constant(tiles), at.constant(1), start);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  auto [firstTile, rowOfFirst] = std::pair(tile, firstRow);
  tile = loop.getInductionVar();
  firstRow = at.scale(tile, countOwnRows());
  scf::YieldOp::create(b, body(loop.getRegionIterArgs()));
  std::tie(tile, firstRow) = std::pair(firstTile, rowOfFirst);
  return llvm::to_vector_of<Value>(loop.getResults());
}

SmallVector<Value> AttentionBlock::forEachKeyTile(ValueRange start, Step step) {
  if (!hasOwnKeys())
    return forEachTile({Key, Values}, start, step);
  gpu::BarrierOp::create(b); // All warps have read what copies will overwrite.
  copyTile({Key, Values}, keyTile);
  awaitCopies();
  current = keyTile;
  stage = at.divide(keyTile, 2).second;
  // Sums of keys that do not exist are not stored.
  return step(start, /*isMasked=*/attention.causal);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Emits `body` if the condition holds.
static void emitIf(ImplicitLocOpBuilder &b, Value condition,
                   function_ref<void()> body) {
  OpBuilder::InsertionGuard guard(b);
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  b.setInsertionPoint(branch.thenYield());
  body();
}

Value AttentionBlock::addWarps(ArrayRef<Value> sums) const {
  auto take = [&](Value scores, int64_t i) -> Value {
    return vector::ExtractOp::create(b, scores, i);
  };
  // The sums of the thread's two rows, by column.
  SmallVector<Value> own;
  SmallVector<int64_t> columns;
  for (auto [chunk, scores] : llvm::enumerate(sums))
    for (int64_t i : {0, 1, 4, 5}) {
      own.push_back(add(take(scores, i), take(scores, i + 2)));
      columns.push_back(static_cast<int64_t>(chunk) * kChunk + i / 4 * kBelow +
                        i % 2);
    }
  if (!hasOwnKeys()) {
    own = {add(add(own[0], own[1]), add(own[2], own[3]))};
    columns = {0};
  }
  // Other groups of lanes have other rows; members of a group other columns.
  for (Value &sum : own)
    for (int64_t distance = hasOwnKeys() ? kSharers : 1; distance < kWarp;
         distance *= 2) {
      auto other = gpu::ShuffleOp::create(
          b, sum, static_cast<int32_t>(distance), kWarp, gpu::ShuffleMode::XOR);
      sum = add(sum, other.getShuffleResult());
    }
  int64_t width = hasOwnKeys() ? tileRows : 1;
  Value place = at.scale(warp, width);
  if (hasOwnKeys())
    place = at.add(place, at.scale(member, 2));
  emitIf(b, at.isBelow(matrices.lane, hasOwnKeys() ? kSharers : 1), [&] {
    for (auto [sum, column] : llvm::zip_equal(own, columns))
      memref::StoreOp::create(b, sum, partial, at.add(place, column));
  });
  gpu::BarrierOp::create(b);
  // Threads beyond the width compute what others do.
  Value column = at.divide(thread, width).second, all;
  for (int64_t i = 0; i < kWarps; ++i) {
    Value sum = memref::LoadOp::create(b, partial, at.add(column, i * width));
    all = all ? add(all, sum) : sum;
  }
  return all;
}

void AttentionBlock::storeBiasGradient(ArrayRef<Value> sums) const {
  size_t index = indexOfBiasGradient(*shape.biasGradient);
  Contraction plain;
  plain.batch = getBlockBatch();
  plain.out = operands[index];
  ContractionMemory into;
  into.out = memory[index];
  Extent one{1, 1};
  Results results(at, plain, into, batch,
                  hasOwnQueries() ? getRows(Query) : one,
                  hasOwnKeys() ? getRows(Key) : one);
  Value zero = at.constant(0);
  if (!hasOwnQueries()) {
    Value sum = addWarps(sums), column = zero;
    if (hasOwnKeys())
      column = at.add(at.scale(keyTile, tileRows), thread);
    return emitIf(b, at.isBelow(thread, hasOwnKeys() ? tileRows : 1),
                  [&] { results.store(zero, column, sum); });
  }
  Value row = findOwnRow(/*set=*/0), rows[] = {row, at.add(row, kBelow)};
  if (!hasOwnKeys()) {
    Value two = sumLanes(sumRows(sums.front()));
    return emitIf(b, at.isBelow(member, 1), [&] {
      for (int64_t i = 0; i < 2; ++i)
        results.store(rows[i], zero,
                      vector::ExtractOp::create(b, two, i).getResult());
    });
  }
  Value first = at.add(at.scale(keyTile, tileRows), at.scale(member, 2));
  for (auto [chunk, scores] : llvm::enumerate(sums))
    for (int64_t i = 0; i < kScores; i += 2) {
      int64_t column = static_cast<int64_t>(chunk) * kChunk + i / 4 * kBelow;
      Value pair[] = {vector::ExtractOp::create(b, scores, i),
                      vector::ExtractOp::create(b, scores, i + 1)};
      results.store(rows[i / 2 % 2], at.add(first, column), pair);
    }
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

/// Returns the factors of the block's queries, which the first kernel stored.
static QueryFactors loadOwnFactors(AttentionBlock &block) {
  auto load = [&](AttentionBlock::Factor factor) {
    return block.broadcastRows(block.loadRows(Factors, /*set=*/0, factor));
  };
  return {load(AttentionBlock::Exponent), load(AttentionBlock::Inner),
          load(AttentionBlock::Reference)};
}

void mlir::binade::emitBiasGradient(ImplicitLocOpBuilder &b,
                                    const GpuAttention &attention, size_t index,
                                    StringRef name) {
  OpBuilder::InsertionGuard outside(b);
  bool areNarrow = std::max(attention.depth, attention.width) <= 64;
  AttentionBlock block(
      b, attention, name,
      {.hasQueries = true, .blocks = areNarrow ? 3 : 2, .biasGradient = index});
  auto visitQueries = [&](ValueRange start) {
    SmallVector<Value> query = block.loadOwn(Query), dy = block.loadOwn(Dy);
    QueryFactors factors = loadOwnFactors(block);
    auto compute = [&](int64_t chunk, bool isMasked) {
      Value products = block.multiplyRows(query, Key, chunk).front(),
            dp = block.multiplyRows(dy, Values, chunk).front();
      // Queries that do not exist are 0, and so are their gradients.
      return computeChunk(block, products, dp, factors, chunk, isMasked).scores;
    };
    return block.forEachKeyTile(start, [&](ValueRange before, bool isMasked) {
      SmallVector<Value> sums(before);
      for (int64_t chunk = 0; chunk < block.countChunks(); ++chunk) {
        Value &sum = sums[block.hasOwnKeys() ? chunk : 0];
        auto add = [&] {
          return SmallVector<Value>{block.add(sum, compute(chunk, isMasked))};
        };
        sum = block.unlessHidden(chunk, isMasked, sum, add).front();
      }
      return sums;
    });
  };
  SmallVector<Value> start(block.hasOwnKeys() ? block.countChunks() : 1,
                           block.splat(0, AttentionBlock::kScores));
  block.storeBiasGradient(block.unlessAllHidden(start, [&] {
    return block.forEachHead(start, [&](ValueRange before) {
      return block.forEachQueryTile(before, visitQueries);
    });
  }));
  block.finish();
}
