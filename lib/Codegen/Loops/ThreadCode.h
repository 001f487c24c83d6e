//===- ThreadCode.h - Arithmetic on indices of a thread ---------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_THREADCODE_H
#define BINADE_LIB_CODEGEN_LOOPS_THREADCODE_H

#include "Emitter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

namespace mlir::binade {

/// Base of classes that emit code of a GPU's threads. Words have 32 bits.
class ThreadCode {
protected:
  using Is = arith::CmpIPredicate;

  explicit ThreadCode(Emitter &emitter) : e(emitter) {}

  Value word(int64_t value) {
    return arith::ConstantIntOp::create(e.builder(), value, 32);
  }
  Value toWord(Value index) {
    return arith::IndexCastOp::create(e.builder(), e.builder().getI32Type(),
                                      index);
  }
  Value toIndex(Value number) {
    return arith::IndexCastOp::create(e.builder(), e.builder().getIndexType(),
                                      number);
  }
  Value add(Value x, Value y) {
    return arith::AddIOp::create(e.builder(), x, y);
  }
  Value both(Value x, Value y) {
    return arith::AndIOp::create(e.builder(), x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(e.builder(), condition, x, y);
  }
  Value is(Is predicate, Value x, Value y) {
    return arith::CmpIOp::create(e.builder(), predicate, x, y);
  }
  void when(Value condition, llvm::function_ref<void()> body) {
    e.conditional(condition, {}, [&] {
      body();
      return SmallVector<Value>();
    });
  }
  /// Returns `number`, which is below `extent`, as an offset.
  Offset at(Value number, int64_t extent) {
    return e.offsets().loaded(number, extent, e.depth(), /*perLane=*/false);
  }
  /// Returns the thread's number in its warp, and the warp's number.
  std::pair<Value, Value> locate() {
    Value thread = e.threadPlace().first, warp = e.index(kWarp);
    return {arith::RemUIOp::create(e.builder(), thread, warp),
            arith::DivUIOp::create(e.builder(), thread, warp)};
  }
  /// Returns a word with a bit for each thread of the warp: its `truth`.
  Value vote(Value truth, Value lane) {
    Value bit = arith::ShLIOp::create(e.builder(), word(1), toWord(lane));
    return e.combineNeighbours(select(truth, bit, word(0)), kWarp,
                               vector::CombiningKind::OR);
  }
  Value count(Value bits) { return math::CtPopOp::create(e.builder(), bits); }
  /// Returns `bits` without its lowest set bit.
  Value clearLowest(Value bits) {
    return both(bits, arith::SubIOp::create(e.builder(), bits, word(1)));
  }
  /// Returns the position of the lowest set bit of `bits`, which is not 0. The
  /// highest bit is set so that LLVM knows this: counting the zeros of a word
  /// that may be 0 takes a branch.
  Value findLowest(Value bits) {
    Value marked = arith::OrIOp::create(
        e.builder(), bits, word(std::numeric_limits<int32_t>::min()));
    return math::CountTrailingZerosOp::create(e.builder(), marked);
  }

  Emitter &e;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_THREADCODE_H
