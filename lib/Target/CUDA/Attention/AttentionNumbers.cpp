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

Value AttentionBlock::add(Value x, Value y) const {
  return arith::AddFOp::create(b, x, y);
}

Value AttentionBlock::subtract(Value x, Value y) const {
  return arith::SubFOp::create(b, x, y);
}

Value AttentionBlock::multiply(Value x, Value y) const {
  return arith::MulFOp::create(b, x, y);
}

Value AttentionBlock::maximize(Value x, Value y) const {
  return arith::MaximumFOp::create(b, x, y);
}

Value AttentionBlock::exp2(Value x) const {
  return math::Exp2Op::create(b, x, arith::FastMathFlags::afn);
}

Value AttentionBlock::broadcastRows(Value two) const {
  return vector::ShuffleOp::create(b, two, two,
                                   ArrayRef<int64_t>{0, 0, 1, 1, 0, 0, 1, 1});
}

Value AttentionBlock::broadcastColumns(Factor factor, int64_t chunk) const {
  auto pair = VectorType::get({2}, b.getF32Type());
  Value own = at.add(at.scale(stage, countFactors(attention) * tileRows),
                     at.scale(member, 2));
  auto load = [&](int64_t column) -> Value {
    return vector::LoadOp::create(b, pair, factors,
                                  at.add(own, factor * tileRows + column));
  };
  return vector::ShuffleOp::create(b, load(chunk * kChunk),
                                   load(chunk * kChunk + kBelow),
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
  return combineRows(scores, [&](Value x, Value y) { return add(x, y); });
}

Value AttentionBlock::maximizeRows(Value scores) const {
  return combineRows(scores, [&](Value x, Value y) { return maximize(x, y); });
}

Value AttentionBlock::sumLanes(Value two) const {
  return combineLanes(two, [&](Value x, Value y) { return add(x, y); });
}

Value AttentionBlock::maximizeLanes(Value two) const {
  return combineLanes(two, [&](Value x, Value y) { return maximize(x, y); });
}

Value AttentionBlock::isAny(ArrayRef<Value> conditions) const {
  Value own = conditions.front();
  for (Value other : conditions.drop_front())
    own = arith::OrIOp::create(b, own, other);
  own = vector::ReductionOp::create(b, vector::CombiningKind::OR, own);
  Value all = gpu::SubgroupReduceOp::create(
      b, arith::ExtUIOp::create(b, b.getI32Type(), own),
      gpu::AllReduceOperation::MAXSI, /*uniform=*/true);
  Value zero = arith::ConstantOp::create(b, b.getI32IntegerAttr(0));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, all, zero);
}

Value AttentionBlock::round(Value scores) const {
  Value rounded =
      arith::TruncFOp::create(b, VectorType::get({kScores}, format), scores);
  return vector::ShapeCastOp::create(b, VectorType::get({4, 2}, format),
                                     rounded);
}
