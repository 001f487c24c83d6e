//===- StateGroups.cpp - Updates of quantized states ----------------------===//

#include "StateGroups.h"
#include "../Casts/RangeExpansion.h"
#include "Schedules.h"
#include "binade/IR/Build.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

/// Elements per block: enough that the scales of a whole vector of groups are
/// chosen at once, and few enough for the L1 cache.
static constexpr int64_t kMinBlock = 2048;
bool StateGroups::isNeeded(OptimizerUpdateOp update) {
  return llvm::any_of(update.getKeptStates(), [](const KeptState &state) {
    return bool(state.format);
  });
}

StateGroups::StateGroups(Emitter &emitter, OptimizerUpdateOp update)
    : e(emitter), b(emitter.builder()), update(update), block(kMinBlock) {
  for (const KeptState &kept : update.getKeptStates())
    if (kept.format)
      states.push_back({kept, kept.format.getExtent().front(), {}, {}, {}});
  for (const State &state : states)
    block = std::max(block, state.size);
  // Each block is read before it is written.
  for (const State &state : states)
    for (unsigned part = 0; part < state.kept.count; ++part) {
      unsigned index = state.kept.first + part;
      if (auto argument = dyn_cast<BlockArgument>(getOperand(index)))
        e.allowInPlace(argument.getArgNumber(), 1 + index);
    }
}

void StateGroups::emit() {
  if (fitsWarpSpans())
    emitSpans();
  else
    emitBlocks();
}

SmallVector<unsigned> StateGroups::listPlain() {
  SmallVector<unsigned> plain;
  for (unsigned index = 0; index < update->getNumResults(); ++index)
    if (llvm::none_of(states, [&](const State &state) {
          unsigned first = 1 + state.kept.first;
          return index >= first && index < first + state.kept.count;
        }))
      plain.push_back(index);
  return plain;
}

void StateGroups::emitBlocks() {
  for (State &state : states) {
    auto allocate = [&](unsigned count) {
      SmallVector<Value> memories;
      for (unsigned i = 0; i < count; ++i)
        memories.push_back(e.allocate(block / state.size, b.getF32Type()));
      return memories;
    };
    state.numbers = e.allocate(block, b.getF32Type());
    LaneCodec codec(state.kept.format);
    state.ofGroups = allocate(codec.countEncodingNumbers());
    if (state.kept.format.getExpand())
      state.old = allocate(kContractionNumbers);
  }
  e.loop(e.argument(0), e.argument(1), block, {}, [&](Value begin, ValueRange) {
    Offset base =
        e.offsets().counter(begin, kMany / block, e.depth(), block) * block;
    Value rest = arith::SubIOp::create(b, e.argument(1), begin);
    Value count = arith::MinUIOp::create(b, rest, e.index(block));
    auto countGroups = [&](const State &state) -> Value {
      Value most = arith::AddIOp::create(b, count, e.index(state.size - 1));
      return arith::DivUIOp::create(b, most, e.index(state.size));
    };
    for (const State &state : states)
      if (!state.old.empty())
        prepare(state, base, countGroups(state));
    updateBlock(base, count);
    e.barrier();
    for (const State &state : states) {
      Value groups = countGroups(state);
      measure(state, count, groups);
      e.barrier();
      choose(state, base, groups);
      e.barrier();
      encode(state, base, count, groups);
    }
    e.barrier();
    return SmallVector<Value>();
  });
}

/// Computes what dequantization with range expansion needs for each group: a
/// logarithm and a division, which take as long as many elements.
void StateGroups::prepare(const State &state, const Offset &base,
                          Value groups) {
  Offset first = e.offsets().divide(base, state.size).quotient;
  e.dynamicColumns(
      e.index(0), groups, block / state.size, {},
      [&](const Offset &group, ValueRange) {
        LaneCodec::Shared parts;
        for (Value factor : getFactors(state))
          parts.emplace_back(b, e.pullLanes(factor, first + group));
        LaneCodec codec(state.kept.format);
        for (auto [memory, number] : llvm::zip_equal(
                 state.old, codec.prepareDecoding(codec.makeFactors(parts))))
          e.storeLanes(memory, number.value, group);
        return SmallVector<Value>();
      });
  e.barrier();
}

/// Stores the new states in scratch memory, and all other results.
void StateGroups::updateBlock(const Offset &base, Value count) {
  SmallVector<unsigned> plain = listPlain();
  e.dynamicColumns(
      e.index(0), count, block, {}, [&](const Offset &local, ValueRange) {
        Offset column = base + local;
        e.setPlaces(column, std::nullopt);
        for (const State &state : states) {
          auto findGroup = [&](const Offset &element) {
            return e.offsets().divide(element, state.size).quotient;
          };
          if (!state.old.empty())
            e.defineDecoding(getFactors(state), findGroup(column),
                             llvm::map_to_vector(state.old, [&](Value memory) {
                               return e.loadNow(memory, findGroup(local));
                             }));
        }
        SmallVector<Value> values;
        for (unsigned index : plain)
          values.push_back(e.pull(update->getResult(index), column).value);
        for (const State &state : states) {
          Value codes = update.getNewStates()[state.kept.first];
          Value number = e.pull(codes, column).value;
          e.store(state.numbers, takeRoot(state, number), local);
        }
        for (auto [index, value] : llvm::zip(plain, values))
          e.storeResult(index, value, column);
        return SmallVector<Value>();
      });
}

Value StateGroups::takeRoot(const State &state, Value number) {
  if (!state.kept.format.takesRoots())
    return number;
  return math::SqrtOp::create(b, number);
}

/// Whether a group is at most four whole vectors on a CPU. A loop over so few
/// would take longer than what it repeats.
bool StateGroups::isShort(const State &state) {
  constexpr int64_t kMaxVectors = 4;
  int64_t lanes = e.wholeLanes();
  return !e.isOnGpu() && !state.kept.format.getExpand() &&
         state.size % lanes == 0 && state.size <= kMaxVectors * lanes;
}

/// Visits the groups from `first`, which is 0 unless groups are short. `body`
/// gets the group's number, and the bounds of its elements in the block.
void StateGroups::forEachGroup(
    const State &state, Value count, Value first, Value groups,
    llvm::function_ref<void(const Offset &, Value, Value)> body) {
  auto visit = [&](const Offset &number, ValueRange) {
    Value begin = e.number(number * state.size);
    Value end = arith::AddIOp::create(b, begin, e.index(state.size));
    body(number, begin, arith::MinUIOp::create(b, end, count));
    return SmallVector<Value>();
  };
  if (!isShort(state)) {
    e.groups(groups, block / state.size, state.size, {}, visit);
    return;
  }
  e.loop(first, groups, 1, {}, [&](Value group, ValueRange) {
    return visit(e.offsets().counter(group, block / state.size, e.depth()), {});
  });
}

/// Computes the largest magnitudes of all groups but a partial one.
void StateGroups::measureFullGroups(const State &state, Value groups) {
  e.loop(e.index(0), groups, 1, {}, [&](Value index, ValueRange) {
    Offset group = e.offsets().counter(index, block / state.size, e.depth());
    int64_t lanes = e.wholeLanes();
    Value found;
    e.perThread(lanes, [&] {
      for (int64_t first = 0; first < state.size; first += lanes) {
        Offset column =
            group * state.size + Offset(first) + e.offsets().lanes(lanes);
        FloatLanes x(b, e.broadcast(e.loadNow(state.numbers, column)));
        Value magnitude = (x.bits() & kMagnitude).value;
        found = found ? arith::MaxUIOp::create(b, found, magnitude).getResult()
                      : magnitude;
      }
    });
    IntLanes amax(
        b, vector::ReductionOp::create(b, vector::CombiningKind::MAXUI, found));
    e.storeOnce(state.ofGroups[0], floatFromBits(amax).value, group);
    return SmallVector<Value>();
  });
}

/// Computes the largest and smallest magnitude of each group as integers, which
/// keeps NaN. Zeros do not count as the smallest.
void StateGroups::measure(const State &state, Value count, Value groups) {
  auto words = VectorType::get({e.wholeLanes()}, b.getI32Type());
  auto constant = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(
        b, DenseElementsAttr::get(words, b.getI32IntegerAttr(value)));
  };
  bool needsLeast = state.kept.format.getExpand();
  Value first = e.index(0);
  if (isShort(state)) {
    first = arith::DivUIOp::create(b, count, e.index(state.size));
    measureFullGroups(state, first);
  }
  forEachGroup(
      state, count, first, groups,
      [&](const Offset &group, Value begin, Value end) {
        Value zeros = constant(0), ones = constant(-1);
        SmallVector<Value> found = {zeros};
        if (needsLeast)
          found.push_back(ones);
        found = e.dynamicColumns(
            begin, end, block, found,
            [&](const Offset &column, ValueRange now) {
              FloatLanes x(b, e.broadcast(e.loadNow(state.numbers, column)));
              IntLanes magnitude = x.bits() & kMagnitude;
              SmallVector<Value> next = {arith::MaxUIOp::create(
                  b, now[0], e.fillLanes(magnitude.value, zeros))};
              if (needsLeast)
                next.push_back(arith::MinUIOp::create(
                    b, now[1], e.fillLanes((magnitude - 1).value, ones)));
              return next;
            });
        auto reduce = [&](vector::CombiningKind kind, Value lanes) {
          Value own = vector::ReductionOp::create(b, kind, lanes);
          return IntLanes(b, e.combineThreads(own, [&](Value x, Value y) {
            return vector::makeArithReduction(b, b.getLoc(), kind, x, y);
          }));
        };
        IntLanes amax = reduce(vector::CombiningKind::MAXUI, found[0]);
        e.storeOnce(state.ofGroups[0], floatFromBits(amax).value, group);
        if (needsLeast) {
          IntLanes least = reduce(vector::CombiningKind::MINUI, found[1]) + 1;
          e.storeOnce(state.ofGroups[1], floatFromBits(least).value, group);
        }
      });
}

SmallVector<Value> StateGroups::listParts(const State &state,
                                          const LaneCodec::Factors &factors) {
  SmallVector<Value> parts = {
      e.narrow(factors.scale.value, state.kept.format.getScale())};
  if (factors.power)
    parts.append({factors.power->value, factors.centre->value});
  return parts;
}

/// Chooses the scales of all groups of a block.
void StateGroups::choose(const State &state, const Offset &base, Value groups) {
  QuantizedAttr format = state.kept.format;
  Offset firstGroup = e.offsets().divide(base, state.size).quotient;
  unsigned first = 1 + state.kept.first;
  e.dynamicColumns(
      e.index(0), groups, block / state.size, {},
      [&](const Offset &group, ValueRange) {
        auto load = [&](unsigned index) {
          return FloatLanes(
              b, e.broadcast(e.loadNow(state.ofGroups[index], group)));
        };
        std::optional<FloatLanes> least;
        if (format.getExpand())
          least = load(1);
        LaneCodec codec(format);
        LaneCodec::Factors chosen = codec.choose(load(0), least);
        for (auto [part, value] : llvm::enumerate(listParts(state, chosen)))
          e.storeLanes(e.resultBuffer(first + 1 + part), value,
                       firstGroup + group);
        for (auto [memory, number] : llvm::zip_equal(
                 state.ofGroups,
                 codec.prepareEncoding(chosen, /*isMeasured=*/true)))
          e.storeLanes(memory, number.value, group);
        return SmallVector<Value>();
      });
}

IntLanes StateGroups::encode(const State &state, FloatLanes x,
                             ArrayRef<Value> shared, const Offset &offset) {
  auto like = [&](Value value) {
    bool isVector = isa<VectorType>(x.value.getType());
    return FloatLanes(b, isVector ? e.broadcast(value) : value);
  };
  std::optional<FloatLanes> random;
  if (state.kept.isRandom)
    random = like(e.drawNumber(update, 0, 1 + state.kept.index, offset).value);
  auto load = [&](DenseElementsAttr table, Value index) {
    return e.lookUp(table, index);
  };
  return LaneCodec(state.kept.format)
      .encode(x, LaneCodec::Shared(llvm::map_range(shared, like)),
              /*saturate=*/true, {load, e.hasRegisterTables()}, random);
}

/// Returns the operands with one value per element.
SmallVector<Value> StateGroups::listStreams() {
  llvm::SmallDenseSet<Value> factors;
  for (const State &state : states)
    factors.insert_range(getFactors(state));
  int64_t elements = update.getParameter().getType().getNumElements();
  SmallVector<Value> streams;
  for (BlockArgument argument : e.source().getArguments())
    if (cast<RankedTensorType>(argument.getType()).getNumElements() ==
            elements &&
        !factors.contains(argument))
      streams.push_back(e.buffer(argument.getArgNumber()));
  return streams;
}

/// Starts to load operands of the next block, because memory would be idle
/// while states are quantized. Each state does so for some of the operands.
void StateGroups::prefetchNextBlock(const State &state, const Offset &element) {
  if (e.isOnGpu() || e.lanes() == 1)
    return;
  Value next = arith::AddIOp::create(b, e.number(element), e.index(block));
  Value last = arith::SubIOp::create(b, e.argument(1), e.index(1));
  Value place = arith::MinUIOp::create(b, next, last);
  size_t number = &state - states.begin();
  for (auto [index, memory] : llvm::enumerate(listStreams()))
    if (index % states.size() == number)
      e.prefetch(memory, place);
}

void StateGroups::encode(const State &state, const Offset &base, Value count,
                         Value groups) {
  auto load = [&](const Offset &group) {
    return llvm::map_to_vector(
        state.ofGroups, [&](Value memory) { return e.loadNow(memory, group); });
  };
  auto emit = [&](const Offset &column, ArrayRef<Value> shared) {
    prefetchNextBlock(state, base + column);
    FloatLanes x(b, e.broadcast(e.loadNow(state.numbers, column)));
    storeCodes(state, encode(state, x, shared, base + column), base + column);
    return SmallVector<Value>();
  };
  if (isShort(state)) {
    e.dynamicColumns(
        e.index(0), count, block, {}, [&](const Offset &column, ValueRange) {
          return emit(column,
                      load(e.offsets().divide(column, state.size).quotient));
        });
    return;
  }
  forEachGroup(state, count, e.index(0), groups,
               [&](const Offset &group, Value begin, Value end) {
                 SmallVector<Value> shared = load(group);
                 e.dynamicColumns(begin, end, block, {},
                                  [&](const Offset &column, ValueRange) {
                                    return emit(column, shared);
                                  });
               });
}

/// Stores quantized values. In a byte with two of them, the first is in the
/// upper half.
void StateGroups::storeCodes(const State &state, IntLanes code,
                             const Offset &offset) {
  QuantizedAttr format = state.kept.format;
  Value memory = e.resultBuffer(1 + state.kept.first);
  if (!format.isPacked()) {
    Type type = code.typeWith(format.getCodeType());
    Value typed = arith::BitcastOp::create(b, type, code.value);
    return e.storeOnce(memory, typed, offset);
  }
  Value first = e.number(offset);
  Value byte = arith::DivUIOp::create(b, first, e.index(2));
  if (e.lanes() > 1) {
    auto halves = vector::DeinterleaveOp::create(b, code.value);
    IntLanes high(b, halves.getRes1()), low(b, halves.getRes2());
    Value packed = ((high << 4) | low).value;
    e.guarded([&] { vector::StoreOp::create(b, packed, memory, byte); });
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
  e.guarded([&] { memref::StoreOp::create(b, packed, memory, byte); });
}

/// Each result has a loop of its own, because 4-bit elements share bytes, and
/// there are fewer scales than elements.
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
    e.forEach(begin, end, [&, index = index](Value element) {
      Value value = memref::LoadOp::create(b, e.buffer(from), element);
      memref::StoreOp::create(b, value, e.resultBuffer(index), element);
    });
  }
}
