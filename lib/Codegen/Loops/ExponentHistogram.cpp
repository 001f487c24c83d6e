//===- ExponentHistogram.cpp - Histogram of exponents on CPUs -------------===//

#include "ExponentHistogram.h"
#include "../Lanes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

/// Bytes per vector, and maximum vectors per chunk, which fit into registers.
static constexpr int64_t kBytes = 64, kMaxVectors = 16;
static constexpr int64_t kExponents = StatisticsOp::kExponents;

ExponentHistogram::ExponentHistogram(Emitter &e, int64_t most)
    : e(e), b(e.builder()),
      vectors(std::min<int64_t>(kMaxVectors, llvm::divideCeil(most, kBytes))),
      // The last chunk is filled up with zeros.
      bytes(e.allocate(most + vectors * kBytes, b.getI8Type())) {}

static Value constantLanes(ImplicitLocOpBuilder &b, Type like, int64_t value) {
  auto vector = cast<VectorType>(like);
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(vector, Attribute(IntegerAttr::get(
                                            vector.getElementType(), value))));
}

void ExponentHistogram::keep(Value magnitudes, Value place) const {
  auto words = cast<VectorType>(magnitudes.getType());
  Value exponents = arith::ShRUIOp::create(
      b, magnitudes, constantLanes(b, words, kFractionBits));
  Value narrow =
      arith::TruncIOp::create(b, words.clone(b.getI8Type()), exponents);
  storeBytes(narrow, place);
}

void ExponentHistogram::storeBytes(Value values, Value at) const {
  vector::StoreOp::create(b, values, bytes, at, /*nontemporal=*/false,
                          /*alignment=*/IntegerAttr());
}

Value ExponentHistogram::loadBytes(Value at) const {
  return vector::LoadOp::create(b, VectorType::get({kBytes}, b.getI8Type()),
                                bytes, at);
}

Value ExponentHistogram::broadcastByte(Value byte) const {
  return vector::BroadcastOp::create(
      b, VectorType::get({kBytes}, b.getI8Type()),
      arith::IndexCastUIOp::create(b, b.getI8Type(), byte));
}

/// Returns the number of bytes of `chunk` that equal `byte`.
Value ExponentHistogram::countEqual(ArrayRef<Value> chunk, Value byte) const {
  Value all = broadcastByte(byte), total;
  auto word = VectorType::get({1}, b.getIntegerType(kBytes));
  for (Value part : chunk) {
    Value truths =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, part, all);
    Value mask = vector::ExtractOp::create(
        b, vector::BitCastOp::create(b, word, truths), int64_t(0));
    Value ones = math::CtPopOp::create(b, mask);
    total = total ? arith::AddIOp::create(b, total, ones).getResult() : ones;
  }
  return arith::TruncIOp::create(b, b.getI32Type(), total);
}

/// Returns the smallest exponent of `chunk`, and one more than the largest,
/// both without 0 and 255: 0 wraps around to the largest byte, 255 to the
/// smallest.
std::pair<Value, Value>
ExponentHistogram::findRange(ArrayRef<Value> chunk) const {
  Value one = constantLanes(b, chunk.front().getType(), 1), low, high;
  for (Value part : chunk) {
    Value before = arith::SubIOp::create(b, part, one);
    Value after = arith::AddIOp::create(b, part, one);
    low = low ? arith::MinUIOp::create(b, low, before).getResult() : before;
    high = high ? arith::MaxUIOp::create(b, high, after).getResult() : after;
  }
  auto reduce = [&](vector::CombiningKind kind, Value x) -> Value {
    return arith::IndexCastUIOp::create(
        b, b.getIndexType(), vector::ReductionOp::create(b, kind, x));
  };
  return {arith::AddIOp::create(b, reduce(vector::CombiningKind::MINUI, low),
                                e.index(1)),
          reduce(vector::CombiningKind::MAXUI, high)};
}

void ExponentHistogram::countChunk(ArrayRef<Value> chunk, Value histogram,
                                   Value first) const {
  auto at = [&](Value bin) -> Value {
    return arith::AddIOp::create(b, first, bin);
  };
  Value nonfinite = countEqual(chunk, e.index(kExponents - 1));
  e.addTo(histogram, at(e.index(kExponents - 1)), nonfinite);
  auto [low, high] = findRange(chunk);
  Value seen =
      e.loop(low, high, 1, nonfinite, [&](Value bin, ValueRange carried) {
         Value count = countEqual(chunk, bin);
         e.addTo(histogram, at(bin), count);
         return SmallVector<Value>{
             arith::AddIOp::create(b, carried.front(), count)};
       }).front();
  auto all = static_cast<int32_t>(chunk.size() * kBytes);
  Value zeros = arith::SubIOp::create(
      b, arith::ConstantOp::create(b, b.getI32IntegerAttr(all)), seen);
  e.addTo(histogram, first, zeros);
}

void ExponentHistogram::store(Value count, Value histogram,
                              const Offset &first) const {
  auto lanes = VectorType::get({kLanes}, b.getI32Type());
  e.columns(kExponents, {}, [&](const Offset &bin, ValueRange) {
    e.store(histogram, constantLanes(b, lanes, 0), first + bin);
    return SmallVector<Value>();
  });
  auto filled = VectorType::get({kBytes}, b.getI8Type());
  for (int64_t part = 0; part < vectors; ++part)
    storeBytes(constantLanes(b, filled, 0),
               arith::AddIOp::create(b, count, e.index(part * kBytes)));
  int64_t size = vectors * kBytes;
  Value start = e.number(first);
  e.loop(e.index(0), count, size, {}, [&](Value at, ValueRange) {
    SmallVector<Value> chunk;
    for (int64_t part = 0; part < vectors; ++part)
      chunk.push_back(
          loadBytes(arith::AddIOp::create(b, at, e.index(part * kBytes))));
    countChunk(chunk, histogram, start);
    return SmallVector<Value>();
  });
  // The bytes that filled up the last chunk are not counted: -count modulo its
  // size.
  Value rest = arith::RemUIOp::create(b, count, e.index(size));
  Value filling = arith::RemUIOp::create(
      b, arith::SubIOp::create(b, e.index(size), rest), e.index(size));
  e.addTo(histogram, start,
          arith::SubIOp::create(
              b, arith::ConstantOp::create(b, b.getI32IntegerAttr(0)),
              arith::IndexCastUIOp::create(b, b.getI32Type(), filling)));
}
