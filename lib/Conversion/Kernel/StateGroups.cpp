//===- StateGroups.cpp - updates of quantized states ----------------------===//

#include "StateGroups.h"
#include "binade/IR/Build.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr int64_t kMany = int64_t(1) << 40;
static constexpr int64_t kMagnitude = 0x7fffffff;

bool StateGroups::isNeeded(OptimizerUpdateOp update) {
  return llvm::any_of(update.getKeptStates(), [](const KeptState &state) {
    return bool(state.format);
  });
}

StateGroups::StateGroups(Emitter &emitter, OptimizerUpdateOp update)
    : e(emitter), b(emitter.builder()), update(update) {
  for (const KeptState &kept : update.getKeptStates())
    if (kept.format)
      states.push_back({kept, kept.format.getExtent().front(), {}});
  for (const State &state : states)
    longest = std::max(longest, state.size);
  for (State &state : states) {
    state.buffer = e.allocate(longest, b.getF32Type());
    // Each group is read before it is written.
    for (unsigned part = 0; part < state.kept.count; ++part) {
      unsigned index = state.kept.first + part;
      if (auto argument = dyn_cast<BlockArgument>(getOperand(index)))
        e.allowInPlace(argument.getArgNumber(), 1 + index);
    }
  }
}

void StateGroups::emit() {
  auto isState = [&](unsigned result) {
    return llvm::any_of(states, [&](const State &state) {
      unsigned first = 1 + state.kept.first;
      return result >= first && result < first + state.kept.count;
    });
  };
  e.loop(
      e.argument(0), e.argument(1), longest, {}, [&](Value begin, ValueRange) {
        Offset base =
            e.offsets().counter(begin, kMany / longest, e.depth(), longest) *
            longest;
        Value rest = arith::SubIOp::create(b, e.argument(1), begin);
        Value count = arith::MinUIOp::create(b, rest, e.index(longest));
        e.dynamicColumns(
            e.index(0), count, longest, {},
            [&](const Offset &local, ValueRange) {
              Offset column = base + local;
              e.setPlaces(column, std::nullopt);
              SmallVector<std::pair<unsigned, Value>> plain;
              for (auto [index, result] : llvm::enumerate(update->getResults()))
                if (!isState(index))
                  plain.emplace_back(index, e.pull(result, column).value);
              for (const State &state : states)
                e.store(state.buffer,
                        e.pull(update.getNewStates()[state.kept.first], column)
                            .value,
                        local);
              for (auto [index, value] : plain)
                e.storeResult(index, value, column);
              return SmallVector<Value>();
            });
        for (const State &state : states)
          encode(state, base, count);
        return SmallVector<Value>();
      });
}

/// All groups of one state in the `count` numbers of its buffer.
void StateGroups::encode(const State &state, const Offset &base, Value count) {
  if (state.size == longest)
    return encodeGroup(state, base, Offset(), e.index(0), count);
  e.loop(e.index(0), count, state.size, {}, [&](Value begin, ValueRange) {
    Offset local = e.offsets().counter(begin, longest / state.size, e.depth(),
                                       state.size) *
                   state.size;
    Value end = arith::AddIOp::create(b, begin, e.index(state.size));
    encodeGroup(state, base, local, begin,
                arith::MinUIOp::create(b, end, count));
    return SmallVector<Value>();
  });
}

/// Largest and least magnitude as integers, so that no NaN is lost; zeros are
/// no least one.
LaneCodec::Factors StateGroups::measure(const State &state, Value begin,
                                        Value end) {
  auto words = VectorType::get({kLanes}, b.getI32Type());
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(
        b, DenseElementsAttr::get(
               words, b.getI32IntegerAttr(static_cast<int32_t>(value))));
  };
  // A lane alone leaves the others as they are.
  auto fill = [&](Value lanes, Value rest) -> Value {
    if (lanes.getType() == rest.getType())
      return lanes;
    return vector::InsertStridedSliceOp::create(
        b, lanes, rest, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1});
  };
  Value zeros = constant(0), ones = constant(-1);
  SmallVector<Value> found = e.dynamicColumns(
      begin, end, longest, {zeros, ones},
      [&](const Offset &local, ValueRange now) {
        IntLanes bits =
            FloatLanes(b, e.spread(e.loadNow(state.buffer, local))).bits();
        IntLanes magnitude = bits & kMagnitude;
        return SmallVector<Value>{
            arith::MaxUIOp::create(b, now[0], fill(magnitude.value, zeros)),
            arith::MinUIOp::create(b, now[1],
                                   fill((magnitude - 1).value, ones))};
      });
  auto reduce = [&](vector::CombiningKind kind, Value lanes) {
    return IntLanes(b, vector::ReductionOp::create(b, kind, lanes));
  };
  FloatLanes amax =
      floatFromBits(reduce(vector::CombiningKind::MAXUI, found[0]));
  std::optional<FloatLanes> least;
  if (state.kept.format.getExpand())
    least = floatFromBits(reduce(vector::CombiningKind::MINUI, found[1]) + 1);
  return LaneCodec(state.kept.format).choose(amax, least);
}

void StateGroups::encodeGroup(const State &state, const Offset &base,
                              const Offset &local, Value begin, Value end) {
  QuantizedAttr format = state.kept.format;
  LaneCodec::Factors factors = measure(state, begin, end);
  unsigned first = 1 + state.kept.first;
  Offset group = e.offsets().divide(base + local, state.size).quotient;
  SmallVector<Value> numbers = {
      e.narrow(factors.scale.value, format.getScale())};
  if (factors.power)
    numbers.append({factors.power->value, factors.centre->value});
  for (auto [part, number] : llvm::enumerate(numbers))
    e.storeResult(first + 1 + part, number, group);

  LaneCodec codec(format);
  auto lookUp = [&](DenseElementsAttr table, Value index) {
    return e.lookUp(table, index);
  };
  Type codeType = format.getCodeType();
  e.dynamicColumns(
      begin, end, longest, {}, [&](const Offset &column, ValueRange) {
        FloatLanes x(b, e.spread(e.loadNow(state.buffer, column)));
        auto spread = [&](FloatLanes number) {
          return FloatLanes(b, e.spread(number.value));
        };
        LaneCodec::Factors lanes{x, spread(factors.factor), {}, {}};
        if (factors.power) {
          lanes.power = spread(*factors.power);
          lanes.centre = spread(*factors.centre);
        }
        IntLanes code = codec.encode(x, lanes, /*saturate=*/true, lookUp);
        if (format.isPacked()) {
          storePacked(e.resultBuffer(first), code, base + column);
          return SmallVector<Value>();
        }
        Value typed =
            arith::BitcastOp::create(b, code.typeWith(codeType), code.value);
        e.storeLanes(e.resultBuffer(first), typed, base + column);
        return SmallVector<Value>();
      });
}

/// Two codes in a byte, the first in its upper half.
void StateGroups::storePacked(Value memory, IntLanes code,
                              const Offset &offset) {
  Value first = e.number(offset);
  Value byte = arith::DivUIOp::create(b, first, e.index(2));
  if (e.lanes() > 1) {
    auto halves = vector::DeinterleaveOp::create(b, code.value);
    IntLanes high(b, halves.getRes1()), low(b, halves.getRes2());
    vector::StoreOp::create(b, ((high << 4) | low).value, memory, byte);
    return;
  }
  IntLanes single(
      b, isa<VectorType>(code.value.getType())
             ? vector::ExtractOp::create(b, code.value, int64_t(0)).getResult()
             : code.value);
  IntLanes before(b, memref::LoadOp::create(b, memory, byte).getResult());
  Value which = arith::RemUIOp::create(b, first, e.index(2));
  Value isFirst =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, which, e.index(0));
  Value packed = arith::SelectOp::create(b, isFirst, (single << 4).value,
                                         (before | single).value);
  memref::StoreOp::create(b, packed, memory, byte);
}

/// A loop of its own for each result: codes may share bytes, and scales are
/// fewer than elements.
void StateGroups::emitCopies() {
  SmallVector<int64_t> sizes(update->getNumResults(), 1);
  for (const State &state : states) {
    unsigned first = 1 + state.kept.first;
    if (state.kept.format.isPacked())
      sizes[first] = 2;
    for (unsigned part = 1; part < state.kept.count; ++part)
      sizes[first + part] = state.size;
  }
  SmallVector<Value> old = {update.getParameter()};
  llvm::append_range(old, update.getStates());
  for (auto [index, size] : llvm::enumerate(sizes)) {
    unsigned from = cast<BlockArgument>(old[index]).getArgNumber();
    Value divisor = e.index(size);
    Value begin = arith::DivUIOp::create(b, e.argument(0), divisor);
    Value last = arith::AddIOp::create(b, e.argument(1), e.index(size - 1));
    Value end = arith::DivUIOp::create(b, last, divisor);
    e.loop(begin, end, 1, {}, [&](Value element, ValueRange) {
      Value value = memref::LoadOp::create(b, e.buffer(from), element);
      memref::StoreOp::create(b, value, e.resultBuffer(index), element);
      return SmallVector<Value>();
    });
  }
}
