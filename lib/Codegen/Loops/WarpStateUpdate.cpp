//===- WarpStateUpdate.cpp - Quantized states in registers ----------------===//

#include "StateGroups.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr uint64_t kMagnitude = 0x7fffffff;

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
  return hasExpansion() ? 2 : 3;
}

void StateGroups::emitSpans() {
  if (int64_t blocks = countResidentBlocks())
    e.function()->setAttr(kResidentBlocksAttr, b.getI32IntegerAttr(blocks));
  int64_t lanes = e.wholeLanes(), vectors = countVectors();
  int64_t size = kWarp * lanes * vectors;
  Value begin = e.argument(0), end = e.argument(1);
  Value lane = arith::RemUIOp::create(b, e.threadNumber(), e.index(kWarp));
  Value warp = arith::DivUIOp::create(b, e.threadNumber(), e.index(kWarp));
  Value count = arith::SubIOp::create(b, end, begin);
  Value rest = arith::RemUIOp::create(b, count, e.index(size));
  Value whole = arith::SubIOp::create(b, end, rest);
  unsigned depth = e.depth();
  auto emitFrom = [&](Value from, Value to, int64_t step, Span span) {
    int64_t elements = kWarp * span.lanes * span.vectors;
    e.loop(from, to, step, {}, [&](Value first, ValueRange) {
      span.start =
          e.offsets().counter(first, kMany / elements, e.depth(), elements) *
          elements;
      span.own = e.offsets().counter(lane, kWarp, depth) * span.lanes;
      span.lane = lane;
      e.perThread(span.lanes, [&] { emitSpan(span); });
      return SmallVector<Value>();
    });
  };
  Value first = arith::MulIOp::create(b, warp, e.index(size));
  emitFrom(arith::AddIOp::create(b, begin, first), whole, e.countWarps() * size,
           {lanes, vectors, {}, {}, {}, {}});
  // The remaining elements are processed one by one, as many at a time as the
  // largest group has.
  int64_t most = kWarp;
  for (const State &state : states)
    most = std::max(most, state.size);
  Value isFirst =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, warp, e.index(0));
  e.conditional(isFirst, {}, [&] {
    emitFrom(whole, end, most, {1, most / kWarp, {}, {}, {}, end});
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
      all.push_back({{}, threads, vectors, span.vectors / vectors, {}, {}, {}});
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
    Value team, which, slot;
    std::tie(team, slots.member) = divide(span.lane, slots.threads);
    std::tie(which, slot) = divide(slots.member, slots.count);
    slots.first = arith::SubIOp::create(b, span.lane, slots.member);
    // Adjacent threads have adjacent groups.
    int64_t size = states[slots.states.front()].size;
    int64_t teams = kWarp / slots.threads;
    OffsetSpace &space = e.offsets();
    slots.group = space.divide(span.start, size).quotient +
                  space.counter(slot, slots.count, e.depth()) * teams +
                  space.counter(team, teams, e.depth());
    for (size_t number = 0; number < slots.states.size(); ++number)
      slots.exists.push_back(conjunction(
          b,
          arith::CmpIOp::create(b, arith::CmpIPredicate::eq, which,
                                e.index(static_cast<int64_t>(number))),
          getExistence(span, slots.group * size)));
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

/// Returns what is needed to decode the group that this thread computes. The
/// factors of a group are read by one thread, the one that writes them later.
LaneCodec::Shared StateGroups::loadFactors(const Slots &slots) {
  QuantizedAttr format = states[slots.states.front()].kept.format;
  Value one = arith::ConstantOp::create(b, b.getF32FloatAttr(1.0f));
  SmallVector<Value> loaded(format.countFactors(), one);
  for (auto [index, exists] : llvm::zip_equal(slots.states, slots.exists))
    loaded = e.conditional(exists, loaded, [&, index = index] {
      Offset group = keepInBranch(slots.group);
      return llvm::map_to_vector(getFactors(states[index]), [&](Value factor) {
        return e.widen(e.pull(factor, group).value);
      });
    });
  LaneCodec::Shared parts = llvm::map_to_vector<4>(
      loaded, [&](Value value) { return FloatLanes(b, value); });
  return LaneCodec(format).prepareDecoding(LaneCodec::makeFactors(parts));
}

/// Combines the words of the threads of a group, one per vector.
Value StateGroups::combine(const Slots &slots, ArrayRef<Value> words,
                           vector::CombiningKind kind) {
  Value own = words.front();
  for (Value word : words.drop_front())
    own = vector::makeArithReduction(b, b.getLoc(), kind, own, word);
  if (isa<VectorType>(own.getType()))
    own = vector::ReductionOp::create(b, kind, own);
  return e.combineNeighbours(own, slots.threads, kind);
}

/// Chooses the scales of the new states, and stores scales and quantized
/// values.
void StateGroups::encodeSpan(const Span &span, const Slots &slots,
                             ArrayRef<SmallVector<Value>> numbers) {
  QuantizedAttr format = states[slots.states.front()].kept.format;
  LaneCodec codec(format);
  // Of the group whose scale this thread chooses.
  std::optional<IntLanes> amax, least;
  int64_t member = 0;
  for (unsigned index : slots.states)
    for (int64_t slot = 0; slot < slots.count; ++slot, ++member) {
      SmallVector<Value> words, less;
      for (Value x : ArrayRef(numbers[index])
                         .slice(slot * slots.vectors, slots.vectors)) {
        IntLanes magnitude = FloatLanes(b, x).bits() & kMagnitude;
        words.push_back(magnitude.value);
        // Zeros do not count as the smallest; adding kMagnitude makes them the
        // largest.
        less.push_back((magnitude + kMagnitude).value);
      }
      Value isOwn = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          slots.member, e.index(member));
      auto keep = [&](std::optional<IntLanes> &kept, IntLanes found) {
        kept = kept ? select(BoolLanes(b, isOwn), found, *kept) : found;
      };
      using Kind = vector::CombiningKind;
      keep(amax, IntLanes(b, combine(slots, words, Kind::MAXSI)));
      if (format.getExpand())
        keep(least,
             IntLanes(b, combine(slots, less, Kind::MINSI)) - kMagnitude);
    }
  std::optional<FloatLanes> leastNumber;
  if (least)
    leastNumber = floatFromBits(*least);
  LaneCodec::Factors chosen = codec.choose(floatFromBits(*amax), leastNumber);
  LaneCodec::Shared own = codec.prepareEncoding(chosen, /*isMeasured=*/true);
  for (auto [index, exists] : llvm::zip_equal(slots.states, slots.exists)) {
    const State &state = states[index];
    unsigned first = 1 + state.kept.first;
    e.storing(exists, [&] {
      for (auto [part, value] : llvm::enumerate(listParts(state, chosen)))
        e.storeOnce(e.resultBuffer(first + 1 + part), value, slots.group);
    });
  }
  member = 0;
  for (unsigned index : slots.states)
    for (int64_t slot = 0; slot < slots.count; ++slot, ++member) {
      SmallVector<Value> shared = broadcastFactors(slots, own, member);
      for (int64_t part = 0; part < slots.vectors; ++part) {
        int64_t vector = slot * slots.vectors + part;
        Offset column = getColumn(span, vector);
        IntLanes code =
            encode(states[index], FloatLanes(b, numbers[index][vector]), shared,
                   column);
        e.storing(getExistence(span, column),
                  [&] { storeCodes(states[index], code, column); });
      }
    }
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
      e.defineDecoding(getFactors(state).front(),
                       e.offsets().divide(column, state.size).quotient,
                       decoding);
    SmallVector<Value> results;
    for (unsigned index : plain)
      results.push_back(pull(index, column));
    SmallVector<Value> numbers;
    for (const State &state : states)
      numbers.push_back(pull(1 + state.kept.first, column));
    return std::pair(results, numbers);
  };
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  SmallVector<Value> none(states.size(), zero);
  SmallVector<SmallVector<Value>> numbers(states.size()), results;
  for (int64_t vector = 0; vector < span.vectors; ++vector) {
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
    }
    for (auto [all, value] : llvm::zip_equal(numbers, found))
      all.push_back(value);
  }
  // All loads precede the stores, so that their latencies overlap.
  for (auto [vector, values] : llvm::enumerate(results))
    store(values, getColumn(span, static_cast<int64_t>(vector)));
  for (const Slots &some : slots)
    encodeSpan(span, some, numbers);
}
