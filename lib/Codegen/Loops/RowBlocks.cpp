//===- RowBlocks.cpp - Several rows of a thread at a time -----------------===//

#include "RowBlocks.h"
#include "Reduction.h"

using namespace mlir;
using namespace mlir::binade;

SmallVector<Value>
mlir::binade::forRowBlocks(Emitter &e, Value begin, Value end, int64_t extent,
                           ValueRange carried, RowBlock block,
                           llvm::function_ref<void(const Offset &)> load,
                           Emitter::Columns body) {
  ImplicitLocOpBuilder &b = e.builder();
  auto add = [&](Value x, Value y) -> Value {
    return arith::AddIOp::create(b, x, y);
  };
  Value member = e.threadPlace().second;
  // All threads execute as many iterations, because these may contain shuffles
  // and barriers.
  int64_t step = block.down * block.count;
  Value count = arith::SubIOp::create(b, end, begin);
  Value turns =
      arith::DivUIOp::create(b, add(count, e.index(step - 1)), e.index(step));
  return e.loop(e.index(0), turns, 1, carried, [&](Value turn, ValueRange now) {
    Value first = add(begin, arith::MulIOp::create(b, turn, e.index(step)));
    // Rows, and whether they exist.
    SmallVector<std::pair<Offset, Value>> own;
    for (int64_t number = 0; number < block.count; ++number) {
      Value row = add(first, e.index(number * block.down)), exists;
      if (block.down > 1)
        row = add(row, member);
      if (!block.isWhole) {
        exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row, end);
        row = arith::SelectOp::create(b, exists, row, first);
      }
      own.emplace_back(e.offsets().counter(row, extent, e.depth()), exists);
      e.perThread(e.lanes(), exists, [&] { load(own.back().first); });
    }
    SmallVector<Value> values(now);
    for (auto &[row, exists] : own)
      e.perThread(e.lanes(), exists, [&, &row = row, &exists = exists] {
        SmallVector<Value> next = body(row, values);
        for (auto [value, before] : llvm::zip(next, values))
          before = exists ? arith::SelectOp::create(b, exists, value, before)
                                .getResult()
                          : value;
      });
    return values;
  });
}

/// Whether a value is only moved from operands and constants.
static bool isLoaded(Value value) {
  Operation *op = value.getDefiningOp();
  return !op ||
         (!Reduction::from(op) && llvm::all_of(op->getOperands(), isLoaded));
}

void mlir::binade::loadElements(Emitter &emitter, SmallVector<Value> needed,
                                const Offset &offset,
                                llvm::function_ref<bool(Value)> isWanted) {
  for (size_t next = 0; next < needed.size(); ++next) {
    Value value = needed[next];
    if (!isWanted(value))
      continue;
    Operation *op = value.getDefiningOp();
    if (op && isa<ElementwiseOpInterface, EncodeOp>(op))
      llvm::append_range(needed, op->getOperands());
    else if (auto dequantize = dyn_cast_or_null<DequantizeOp>(op))
      needed.push_back(dequantize.getParts().front());
    else if (isLoaded(value))
      (void)emitter.pull(value, offset);
  }
}
