//===- WarpColumnExchange.cpp - Loop over a warp's active columns ---------===//
//
// Words have a bit for each column. A thread sets the bits of its own columns,
// and the words of all threads are combined only if any bit is set, which is
// rarely the case.
//
//===----------------------------------------------------------------------===//

#include "WarpColumnExchange.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr int64_t kWordBits = 32;

static Value word(Emitter &e, int64_t value) {
  return arith::ConstantIntOp::create(e.builder(), value, kWordBits);
}

static Value either(Emitter &e, Value x, Value y) {
  return arith::OrIOp::create(e.builder(), x, y);
}

/// Combines the bits of all threads, for each of them.
static Value gatherBits(Emitter &e, Value own) {
  return e.combineThreads(own,
                          [&](Value x, Value y) { return either(e, x, y); });
}

/// Returns an integer whose bit i is lane i of `flags`.
static Value packFlags(Emitter &e, Value flags) {
  ImplicitLocOpBuilder &b = e.builder();
  auto powers = llvm::map_to_vector(
      llvm::seq(e.lanes()), [](int64_t lane) { return int32_t{1} << lane; });
  auto type = VectorType::get({e.lanes()}, b.getI32Type());
  Value bits = arith::ConstantOp::create(
      b, DenseElementsAttr::get(type, ArrayRef<int32_t>(powers)));
  Value none = arith::ConstantOp::create(b, b.getZeroAttr(type));
  bits = arith::SelectOp::create(b, e.broadcast(flags), bits, none);
  return vector::ReductionOp::create(b, vector::CombiningKind::OR, bits);
}

/// Returns the bits of a thread's own columns, one word per 32 of `count`
/// columns.
static SmallVector<Value>
findOwn(Emitter &e, int64_t count,
        llvm::function_ref<Value(const Offset &)> holds) {
  ImplicitLocOpBuilder &b = e.builder();
  SmallVector<Value> none(llvm::divideCeil(count, kWordBits), word(e, 0));
  return e.columns(count, none, [&](const Offset &column, ValueRange now) {
    Value bits = packFlags(e, holds(column));
    Value first =
        arith::IndexCastOp::create(b, b.getI32Type(), e.number(column));
    Value bit = arith::RemUIOp::create(b, first, word(e, kWordBits));
    bits = arith::ShLIOp::create(b, bits, bit);
    Value own = arith::DivUIOp::create(b, first, word(e, kWordBits));
    SmallVector<Value> next;
    for (auto [index, so] : llvm::enumerate(now)) {
      Value isOwn = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, own,
                                          word(e, index));
      Value with = either(e, so, bits);
      next.push_back(arith::SelectOp::create(b, isOwn, with, so));
    }
    return next;
  });
}

/// Emits `body` for `together` columns of `bits` at a time while there are as
/// many. Returns the remaining bits.
static Value takeColumns(Emitter &e, Value bits, int64_t index,
                         int64_t together,
                         llvm::function_ref<void(ArrayRef<Offset>)> body) {
  ImplicitLocOpBuilder &b = e.builder();
  Value count = math::CtPopOp::create(b, bits);
  count = arith::DivUIOp::create(b, count, word(e, together));
  count = arith::IndexCastOp::create(b, b.getIndexType(), count);
  auto take = [&](Value, ValueRange now) {
    Value rest = now.front();
    SmallVector<Offset> columns;
    for (int64_t taken = 0; taken < together; ++taken) {
      Value lowest = math::CountTrailingZerosOp::create(b, rest);
      lowest = arith::IndexCastOp::create(b, b.getIndexType(), lowest);
      columns.push_back(e.offsets().loaded(lowest, kWordBits, e.depth(),
                                           /*perLane=*/false) +
                        Offset(index * kWordBits));
      Value below = arith::SubIOp::create(b, rest, word(e, 1));
      rest = arith::AndIOp::create(b, rest, below);
    }
    body(columns);
    return SmallVector<Value>{rest};
  };
  return e.loop(e.index(0), count, 1, bits, take).front();
}

void mlir::binade::forEachActive(
    Emitter &e, int64_t count, int64_t together,
    llvm::function_ref<Value(const Offset &)> holds,
    llvm::function_ref<void(ArrayRef<Offset>)> body) {
  SmallVector<Value> own = findOwn(e, count, holds);
  Value any = own.front();
  for (Value other : llvm::drop_begin(own))
    any = either(e, any, other);
  Value isAny = arith::CmpIOp::create(e.builder(), arith::CmpIPredicate::ne,
                                      gatherBits(e, any), word(e, 0));
  e.conditional(isAny, {}, [&] {
    for (auto [index, bits] : llvm::enumerate(own)) {
      Value rest = takeColumns(e, gatherBits(e, bits), index, together, body);
      takeColumns(e, rest, index, 1, body);
    }
    return SmallVector<Value>();
  });
}
