//===- WarpStateUpdate.cpp - Quantized states in registers ----------------===//

#include "ParameterStorage.h"
#include "StateGroups.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the number of vectors per thread in a span. A thread chooses the
/// scale of one group, so that a span needs several groups to choose their
/// scales in parallel, and more of them if this takes logarithms.
int64_t StateGroups::countVectors() { return hasExpansion() ? 4 : 2; }

bool StateGroups::hasExpansion() {
  return llvm::any_of(
      states, [](const State &state) { return state.kept.format.getExpand(); });
}

/// 4-bit elements are excluded, because adjacent ones share a byte.
bool StateGroups::fitsWarpSpans() {
  int64_t vectors = countVectors();
  return e.isOnGpu() && llvm::all_of(states, [&](const State &state) {
           return !state.kept.format.isPacked() &&
                  state.size >= e.wholeLanes() * vectors &&
                  state.size <= e.wholeLanes() * vectors * kWarp;
         });
}

/// Returns the number of thread blocks that a multiprocessor should hold at the
/// same time. The assembler may use up to 255 registers per thread, which
/// leaves too few warps to hide the latency of memory. The numbers are the
/// largest ones without spilling; 0 leaves the choice to the assembler, as
/// stochastic rounding needs more registers.
int64_t StateGroups::countResidentBlocks() {
  if (llvm::any_of(states,
                   [](const State &state) { return state.kept.isRandom; }))
    return 0;
  return hasExpansion() && !keepsInMemory() ? 2 : 3;
}

/// Whether new states wait in shared memory until their scales are known. Each
/// thread reads only what it stored. In registers, the vectors that range
/// expansion needs at a time would leave too few threads per multiprocessor.
bool StateGroups::keepsInMemory() {
  constexpr size_t kMaxStates = 2; // That leave room for several blocks.
  return hasExpansion() && states.size() <= kMaxStates;
}

/// Returns the place of a vector of state `index` in the memory of all states.
/// A thread has the same words in every span, so that no two threads access
/// one.
Offset StateGroups::getPlace(const Span &span, unsigned index, int64_t vector) {
  int64_t whole = e.wholeLanes(), first = vector * span.lanes;
  int64_t distance = e.countWarps() * kWarp * whole;
  return span.thread * whole +
         Offset((index * countVectors() + first / whole) * distance +
                first % whole) +
         e.offsets().lanes(span.lanes);
}

void StateGroups::emitSpans() {
  if (int64_t blocks = countResidentBlocks())
    e.function()->setAttr(kResidentBlocksAttr, b.getI32IntegerAttr(blocks));
  int64_t lanes = e.wholeLanes(), vectors = countVectors();
  int64_t size = kWarp * lanes * vectors;
  if (keepsInMemory()) {
    e.shareTables();
    auto count = static_cast<int64_t>(states.size());
    Value memory = e.allocate(count * e.countWarps() * size, b.getF32Type());
    for (State &state : states)
      state.numbers = memory;
  }
  Value lane = arith::RemUIOp::create(b, e.threadNumber(), e.index(kWarp));
  Value warp = arith::DivUIOp::create(b, e.threadNumber(), e.index(kWarp));
  unsigned depth = e.depth();
  // Returns the end of the elements that fill spans.
  auto getWhole = [&]() -> Value {
    Value count = arith::SubIOp::create(b, e.argument(1), e.argument(0));
    Value rest = arith::RemUIOp::create(b, count, e.index(size));
    return arith::SubIOp::create(b, e.argument(1), rest);
  };
  auto emitFrom = [&](Value from, Value to, int64_t step, Span span) {
    int64_t elements = kWarp * span.lanes * span.vectors;
    e.loop(from, to, step, {}, [&](Value first, ValueRange) {
      span.start =
          e.offsets().counter(first, kMany / elements, e.depth(), elements) *
          elements;
      span.own = e.offsets().counter(lane, kWarp, depth) * span.lanes;
      span.thread =
          e.offsets().counter(e.threadNumber(), e.countWarps() * kWarp, 0);
      span.lane = lane;
      e.perThread(span.lanes, [&] { emitSpan(span); });
      return SmallVector<Value>();
    });
  };
  Value first = arith::MulIOp::create(b, warp, e.index(size));
  emitFrom(arith::AddIOp::create(b, e.argument(0), first), getWhole(),
           e.countWarps() * size, {lanes, vectors, {}, {}, {}, {}, {}});
  // The remaining elements are processed one by one, as many at a time as the
  // largest group has.
  int64_t most = kWarp;
  for (const State &state : states)
    most = std::max(most, state.size);
  Value isFirst =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, warp, e.index(0));
  auto emitRest = [&] {
    Value end = e.argument(1);
    emitFrom(getWhole(), end, most, {1, most / kWarp, {}, {}, {}, {}, end});
  };
  e.conditional(isFirst, {}, [&] {
    if (keepsInMemory())
      e.readingTableAgain(emitRest);
    else
      emitRest();
    return SmallVector<Value>();
  });
}

Offset StateGroups::getColumn(const Span &span, int64_t vector) {
  return span.start + Offset(vector * kWarp * span.lanes) + span.own +
         e.offsets().lanes(span.lanes);
}

/// Returns whether `element` exists, null if all of the span do.
Value StateGroups::getExistence(const Span &span, const Offset &element) {
  if (!span.end)
    return {};
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, e.number(element),
                               span.end);
}

/// States of one format share slots.
SmallVector<StateGroups::Slots> StateGroups::getSlots(const Span &span) {
  SmallVector<Slots> all;
  for (auto [index, state] : llvm::enumerate(states)) {
    auto *found = llvm::find_if(all, [&, &state = state](const Slots &slots) {
      const State &other = states[slots.states.front()];
      auto more = static_cast<int64_t>(slots.states.size()) + 1;
      return other.kept.format == state.kept.format &&
             more * slots.count <= slots.threads;
    });
    if (found == all.end()) {
      int64_t threads = std::min(kWarp, state.size / span.lanes);
      int64_t vectors = state.size / (threads * span.lanes);
      all.push_back(
          {{}, threads, vectors, span.vectors / vectors, {}, {}, {}, {}, {}});
      found = std::prev(all.end());
    }
    found->states.push_back(index);
  }
  for (Slots &slots : all) {
    auto divide = [&](Value number, int64_t by) {
      return std::pair<Value, Value>(
          arith::DivUIOp::create(b, number, e.index(by)),
          arith::RemUIOp::create(b, number, e.index(by)));
    };
    Value team, slot;
    std::tie(team, slots.member) = divide(span.lane, slots.threads);
    std::tie(slots.which, slot) = divide(slots.member, slots.count);
    slots.first = arith::SubIOp::create(b, span.lane, slots.member);
    // Adjacent threads have adjacent groups.
    int64_t size = states[slots.states.front()].size;
    int64_t teams = kWarp / slots.threads;
    OffsetSpace &space = e.offsets();
    slots.group = space.divide(span.start, size).quotient +
                  space.counter(slot, slots.count, e.depth()) * teams +
                  space.counter(team, teams, e.depth());
    auto count = static_cast<int64_t>(slots.states.size());
    Value hasState = arith::CmpIOp::create(b, arith::CmpIPredicate::ult,
                                           slots.which, e.index(count));
    slots.exists =
        conjunction(b, hasState, getExistence(span, slots.group * size));
  }
  return all;
}

/// Returns the same offset, but such that nothing is loaded outside of the
/// current branch.
Offset StateGroups::keepInBranch(const Offset &offset) {
  Offset uniform = e.offsets().counter(e.number(offset), kMany, e.depth());
  return offset.variesOverLanes() ? uniform + e.offsets().lanes(e.lanes())
                                  : uniform;
}

SmallVector<Value> StateGroups::broadcastFactors(const Slots &slots,
                                                 ArrayRef<FloatLanes> own,
                                                 int64_t member) {
  Value from = e.index(member);
  if (slots.threads < kWarp)
    from = arith::AddIOp::create(b, slots.first, from);
  return llvm::map_to_vector(
      own, [&](FloatLanes number) { return e.readLane(number.value, from); });
}

/// Returns the memory of a factor of the state whose scale this thread
/// computes.
Value StateGroups::chooseMemory(const Slots &slots,
                                llvm::function_ref<Value(const State &)> get) {
  Value memory = get(states[slots.states.front()]);
  for (size_t number = 1; number < slots.states.size(); ++number) {
    Value isOwn =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, slots.which,
                              e.index(static_cast<int64_t>(number)));
    memory = e.chooseMemory(isOwn, get(states[slots.states[number]]), memory);
  }
  return memory;
}

/// Returns what is needed to decode the group that this thread computes. The
/// factors of a group are read by one thread, the one that writes them later.
LaneCodec::Shared StateGroups::loadFactors(const Slots &slots) {
  QuantizedAttr format = states[slots.states.front()].kept.format;
  Value one = arith::ConstantOp::create(b, b.getF32FloatAttr(1.0f));
  SmallVector<Value> memories;
  for (unsigned part = 0; part < format.countFactors(); ++part)
    memories.push_back(chooseMemory(slots, [&](const State &state) {
      auto factor = cast<BlockArgument>(getFactors(state)[part]);
      e.recordLoad(factor.getArgNumber(), slots.group);
      return e.buffer(factor.getArgNumber());
    }));
  SmallVector<Value> loaded(memories.size(), one);
  loaded = e.conditional(slots.exists, loaded, [&] {
    return llvm::map_to_vector(memories, [&](Value memory) {
      return e.widen(e.loadNow(memory, slots.group));
    });
  });
  LaneCodec::Shared parts = llvm::map_to_vector<4>(
      loaded, [&](Value value) { return FloatLanes(b, value); });
  return LaneCodec(format).prepareDecoding(LaneCodec::makeFactors(parts));
}

/// Combines the words of the threads of a group.
Value StateGroups::combine(const Slots &slots, Value word,
                           vector::CombiningKind kind) {
  if (isa<VectorType>(word.getType()))
    word = vector::ReductionOp::create(b, kind, word);
  return e.combineNeighbours(word, slots.threads, kind);
}

/// Measures vector `vector` of the state `number` of `slots`. `group` has the
/// extremes of the vectors of the same group before, `own` those of the group
/// whose scale this thread chooses.
void StateGroups::measure(const Slots &slots, size_t number, int64_t vector,
                          FloatLanes x, Extremes &group, Extremes &own) {
  using Kind = vector::CombiningKind;
  auto add = [&](Value &found, Value word, Kind kind) {
    found = found ? vector::makeArithReduction(b, b.getLoc(), kind, found, word)
                  : word;
  };
  bool needsLeast = states[slots.states[number]].kept.format.getExpand();
  IntLanes magnitude = x.bits() & kMagnitude;
  add(group.amax, magnitude.value, Kind::MAXSI);
  // Zeros do not count as the smallest; adding kMagnitude makes them the
  // largest.
  if (needsLeast)
    add(group.least, (magnitude + kMagnitude).value, Kind::MINSI);
  if ((vector + 1) % slots.vectors != 0)
    return;
  int64_t member =
      static_cast<int64_t>(number) * slots.count + vector / slots.vectors;
  Value isOwn = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, slots.member,
                                      e.index(member));
  auto keep = [&](Value &kept, Value found) {
    kept = kept ? arith::SelectOp::create(b, isOwn, found, kept).getResult()
                : found;
  };
  keep(own.amax, combine(slots, group.amax, Kind::MAXSI));
  if (needsLeast)
    keep(own.least, combine(slots, group.least, Kind::MINSI));
  group = {};
}

/// Chooses the scales of the new states, and stores scales and quantized
/// values. `getNumber` returns a vector of a new state.
void StateGroups::encodeSpan(
    const Span &span, const Slots &slots, const Extremes &extremes,
    llvm::function_ref<Value(unsigned, int64_t)> getNumber) {
  QuantizedAttr format = states[slots.states.front()].kept.format;
  LaneCodec codec(format);
  std::optional<FloatLanes> least;
  if (extremes.least)
    least = floatFromBits(IntLanes(b, extremes.least) - kMagnitude);
  LaneCodec::Factors chosen =
      codec.choose(floatFromBits(IntLanes(b, extremes.amax)), least);
  LaneCodec::Shared own = codec.prepareEncoding(chosen, /*isMeasured=*/true);
  SmallVector<Value> parts = listParts(states[slots.states.front()], chosen);
  SmallVector<Value> memories;
  auto findMemories = [&] {
    for (unsigned part = 0; part < parts.size(); ++part)
      memories.push_back(chooseMemory(slots, [&](const State &state) {
        return e.resultBuffer(2 + state.kept.first + part);
      }));
  };
  // Addresses that are used once per span would take registers in between.
  if (keepsInMemory())
    e.readingTableAgain(findMemories);
  else
    findMemories();
  e.storing(slots.exists, [&] {
    for (auto [memory, value] : llvm::zip_equal(memories, parts))
      e.storeOnce(memory, value, slots.group);
  });
  for (auto [number, index] : llvm::enumerate(slots.states))
    for (int64_t slot = 0; slot < slots.count; ++slot) {
      SmallVector<Value> shared = broadcastFactors(
          slots, own, static_cast<int64_t>(number) * slots.count + slot);
      for (int64_t part = 0; part < slots.vectors; ++part) {
        int64_t vector = slot * slots.vectors + part;
        Offset column = getColumn(span, vector);
        IntLanes code =
            encode(states[index], FloatLanes(b, getNumber(index, vector)),
                   shared, column);
        e.storing(getExistence(span, column),
                  [&] { storeCodes(states[index], code, column); });
      }
    }
}

/// Loads the elements that the update at `column` is computed from.
void StateGroups::loadOperands(const Offset &column) {
  e.setPlaces(column, std::nullopt);
  SmallVector<Value> needed = {update.getGradient()};
  if (ParameterStorage(e, update).readsParameter())
    needed.push_back(update.getParameter());
  if (Value companion = update.getCompanion())
    needed.push_back(companion);
  for (const KeptState &kept : update.getKeptStates())
    needed.push_back(getOperand(kept.first));
  for (Value value : needed)
    (void)e.pull(value, column);
}

void StateGroups::emitSpan(const Span &span) {
  SmallVector<Slots> slots = getSlots(span);
  auto own = llvm::map_to_vector(
      slots, [&](const Slots &some) { return loadFactors(some); });
  SmallVector<unsigned> plain = listPlain();
  auto pull = [&](unsigned result, const Offset &column) {
    Value x = e.pull(update->getResult(result), column).value;
    return span.lanes > 1 ? e.broadcast(x) : x;
  };
  auto store = [&](ArrayRef<Value> values, const Offset &column) {
    e.setPlaces(column, std::nullopt);
    for (auto [index, value] : llvm::zip_equal(plain, values))
      e.storeResult(index, value, column);
  };
  // What the current vector of each state is decoded with.
  SmallVector<SmallVector<Value>> decodings(states.size());
  auto broadcastAllFactors = [&](int64_t vector) {
    for (auto [some, shared] : llvm::zip_equal(slots, own))
      for (auto [number, index] : llvm::enumerate(some.states))
        if (vector % some.vectors == 0)
          decodings[index] =
              broadcastFactors(some, shared,
                               static_cast<int64_t>(number) * some.count +
                                   vector / some.vectors);
  };
  // Returns the plain results, then the new states.
  auto compute = [&](const Offset &column) {
    e.setPlaces(column, std::nullopt);
    for (auto [state, decoding] : llvm::zip_equal(states, decodings))
      e.defineDecoding(getFactors(state),
                       e.offsets().divide(column, state.size).quotient,
                       decoding);
    SmallVector<Value> results;
    for (unsigned index : plain)
      results.push_back(pull(index, column));
    SmallVector<Value> numbers;
    for (const State &state : states)
      numbers.push_back(takeRoot(state, pull(1 + state.kept.first, column)));
    return std::pair(results, numbers);
  };
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  SmallVector<Value> none(states.size(), zero);
  SmallVector<SmallVector<Value>> numbers(states.size()), results;
  SmallVector<Extremes> groups(states.size()), extremes(slots.size());
  for (int64_t vector = 0; vector < span.vectors; ++vector) {
    // The latencies of the loads of all vectors overlap.
    if (vector == 0 && !span.end && !keepsInMemory())
      for (int64_t next = 0; next < span.vectors; ++next)
        loadOperands(getColumn(span, next));
    broadcastAllFactors(vector);
    Offset column = getColumn(span, vector);
    SmallVector<Value> found;
    if (Value exists = getExistence(span, column)) {
      found = e.conditional(exists, none, [&] {
        Offset inside = keepInBranch(column);
        auto [values, now] = compute(inside);
        store(values, inside);
        return now;
      });
    } else {
      std::tie(results.emplace_back(), found) = compute(column);
      if (keepsInMemory())
        store(results.pop_back_val(), column);
    }
    for (auto [some, all] : llvm::zip_equal(slots, extremes))
      for (auto [number, index] : llvm::enumerate(some.states))
        measure(some, number, vector, {b, found[index]}, groups[index], all);
    for (auto [index, value] : llvm::enumerate(found))
      if (keepsInMemory())
        e.store(states[index].numbers, value,
                getPlace(span, static_cast<unsigned>(index), vector));
      else
        numbers[index].push_back(value);
  }
  // All loads precede the stores, so that their latencies overlap.
  for (auto [vector, values] : llvm::enumerate(results))
    store(values, getColumn(span, static_cast<int64_t>(vector)));
  auto getNumber = [&](unsigned index, int64_t vector) {
    return keepsInMemory()
               ? e.loadNow(states[index].numbers, getPlace(span, index, vector))
               : numbers[index][vector];
  };
  for (auto [some, all] : llvm::zip_equal(slots, extremes))
    encodeSpan(span, some, all, getNumber);
}
