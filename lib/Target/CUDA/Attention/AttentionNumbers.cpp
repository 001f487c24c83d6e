//===- AttentionNumbers.cpp - Arithmetic on attention scores --------------===//

#include "AttentionBlock.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

Value AttentionBlock::splat(double value, int64_t count) const {
  auto type = VectorType::get({count}, b.getF32Type());
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(type, static_cast<float>(value)));
}

Value AttentionBlock::scale(Value x, double factor) const {
  return arith::MulFOp::create(
      b, x, splat(factor, cast<VectorType>(x.getType()).getNumElements()));
}

Value AttentionBlock::fma(Value x, Value y, Value z) const {
  return math::FmaOp::create(b, x, y, z);
}

Value AttentionBlock::exp(Value x) const { return math::ExpOp::create(b, x); }

Value AttentionBlock::broadcastRows(Value two) const {
  return vector::ShuffleOp::create(b, two, two,
                                   ArrayRef<int64_t>{0, 0, 1, 1, 0, 0, 1, 1});
}

Value AttentionBlock::broadcastColumns(Value numbers, int64_t first) const {
  auto pair = VectorType::get({2}, b.getF32Type());
  auto load = [&](int64_t from) -> Value {
    return vector::LoadOp::create(b, pair, numbers,
                                  at.add(at.scale(member, 2), from));
  };
  return vector::ShuffleOp::create(b, load(first), load(first + kBelow),
                                   ArrayRef<int64_t>{0, 1, 0, 1, 2, 3, 2, 3});
}

Value AttentionBlock::combineRows(Value scores, Combine combine) const {
  auto take = [&](int64_t i) -> Value {
    return vector::ExtractOp::create(b, scores, i);
  };
  auto combineRow = [&](int64_t i) {
    return combine(combine(take(i), take(i + 1)),
                   combine(take(i + 4), take(i + 5)));
  };
  return vector::FromElementsOp::create(
      b, VectorType::get({2}, b.getF32Type()),
      ValueRange{combineRow(0), combineRow(2)});
}

Value AttentionBlock::combineLanes(Value two, Combine combine) const {
  SmallVector<Value> rows;
  for (int64_t row = 0; row < 2; ++row) {
    Value own = vector::ExtractOp::create(b, two, row);
    for (int32_t distance = 1; distance < kSharers; distance *= 2) {
      auto other = gpu::ShuffleOp::create(b, own, distance, kWarp,
                                          gpu::ShuffleMode::XOR);
      own = combine(own, other.getShuffleResult());
    }
    rows.push_back(own);
  }
  return vector::FromElementsOp::create(b, two.getType(), rows);
}

Value AttentionBlock::sumRows(Value scores) const {
  return combineRows(scores, [&](Value x, Value y) -> Value {
    return arith::AddFOp::create(b, x, y);
  });
}

Value AttentionBlock::maximizeRows(Value scores) const {
  return combineRows(scores, [&](Value x, Value y) -> Value {
    return arith::MaximumFOp::create(b, x, y);
  });
}

Value AttentionBlock::sumLanes(Value two) const {
  return combineLanes(two, [&](Value x, Value y) -> Value {
    return arith::AddFOp::create(b, x, y);
  });
}

Value AttentionBlock::maximizeLanes(Value two) const {
  return combineLanes(two, [&](Value x, Value y) -> Value {
    return arith::MaximumFOp::create(b, x, y);
  });
}

Value AttentionBlock::round(Value scores) const {
  Value rounded =
      arith::TruncFOp::create(b, VectorType::get({kScores}, format), scores);
  return vector::ShapeCastOp::create(b, VectorType::get({4, 2}, format),
                                     rounded);
}

Value AttentionBlock::mask(Value scores, Value otherTile, int64_t chunk) const {
  // The offsets between the scores of a thread are constants. They are compared
  // with the part of the position that differs between threads.
  auto isCausal = attention.causal;
  SmallVector<int32_t> places;
  for (int64_t i = 0; i < kScores; ++i) {
    int64_t row = i / 2 % 2 * kBelow,
            column = chunk * kChunk + i / 4 * kBelow + i % 2;
    places.push_back(static_cast<int32_t>(
        isCausal ? row - column : attention.keys - 1 - column));
  }
  Value own = at.scale(member, 2);
  if (isCausal) // Both tiles begin at the same position.
    own =
        arith::SubIOp::create(b, own, at.add(at.scale(warp, kWarpRows), group));
  else
    own = at.add(own, at.scale(otherTile, kRows));
  auto type = VectorType::get({kScores}, b.getI32Type());
  Value all = vector::BroadcastOp::create(
      b, type, arith::IndexCastOp::create(b, b.getI32Type(), own));
  Value limits = arith::ConstantOp::create(
      b, DenseElementsAttr::get(type, ArrayRef<int32_t>(places)));
  Value visible = arith::CmpIOp::create(
      b, hasQueries ? arith::CmpIPredicate::sle : arith::CmpIPredicate::sge,
      all, limits);
  return arith::SelectOp::create(b, visible, scores, splat(-INFINITY, kScores));
}
