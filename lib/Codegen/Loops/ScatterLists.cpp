//===- ScatterLists.cpp - Indices sorted by parts of a table --------------===//

#include "ScatterLists.h"
#include "ThreadCode.h"
#include "binade/Codegen/EmitKernel.h"

using namespace mlir;
using namespace mlir::binade;

/// Maximum number of parts: about the number of multiprocessors, because each
/// part reads all indices.
static constexpr int64_t kMaxParts = 128;
static constexpr int64_t kWarps = ScatterLists::kThreads / kWarp;
/// Indices that a thread loads at a time.
static constexpr int64_t kTogether = 4;
/// Indices that a warp loads at a time.
static constexpr int64_t kChunk = kTogether * kWarp;
static constexpr int64_t kIntBytes = 4;

ScatterLists::ScatterLists(int64_t tokens, int64_t rows)
    : tokens(tokens), rows(rows), partRows(llvm::divideCeil(rows, kMaxParts)),
      parts(llvm::divideCeil(rows, partRows)) {}

int64_t ScatterLists::getBytes() const {
  return kStatusBytes + kIntBytes * (2 * parts + 2 * countEntries());
}

Value ScatterLists::viewBounds(Emitter &e) const {
  return e.viewWorkspace(kStatusBytes, 2 * parts, e.builder().getI32Type());
}

Value ScatterLists::viewRows(Emitter &e) const {
  return e.viewWorkspace(kStatusBytes + kIntBytes * 2 * parts, countEntries(),
                         e.builder().getI32Type());
}

Value ScatterLists::viewTokens(Emitter &e) const {
  return e.viewWorkspace(kStatusBytes +
                             kIntBytes * (2 * parts + countEntries()),
                         countEntries(), e.builder().getI32Type());
}

namespace {
/// Emits the kernel that lists indices.
class ListKernel : ThreadCode {
public:
  ListKernel(Emitter &emitter, Value indices, const ScatterLists &lists)
      : ThreadCode(emitter), indices(indices), lists(lists) {}

  void emitPart(const Offset &number) {
    ImplicitLocOpBuilder &b = e.builder();
    Value first = e.number(number * lists.partRows);
    Value left = arith::SubIOp::create(b, e.index(lists.rows), first);
    Value rowCount = arith::MinUIOp::create(b, left, e.index(lists.partRows));
    auto [lane, warp] = locate();
    Part part = {first, rowCount, lane, warp};
    e.perThread(1, [&] {
      Value place = findPlace(part, number);
      e.loop(e.index(0), e.index(countChunks()), 1, place,
             [&](Value chunk, ValueRange now) {
               return SmallVector<Value>{storeChunk(part, chunk, now.front())};
             });
    });
  }

private:
  struct Part {
    Value firstRow, rowCount;
    Value lane, warp; ///< Of the thread.
  };
  /// An index, as one thread sees it.
  struct Entry {
    Value token, index, row; ///< `row` counts from the first of the part.
    Value isInside, isBelow, isBad;
  };

  /// Chunks of adjacent indices per warp.
  int64_t countChunks() const {
    return llvm::divideCeil(lists.tokens, kWarps * kChunk);
  }

  /// Returns the threads' entries of chunk `chunk` of their warp.
  SmallVector<Entry> readChunk(const Part &part, Value chunk) {
    ImplicitLocOpBuilder &b = e.builder();
    auto multiply = [&](Value x, int64_t by) -> Value {
      return arith::MulIOp::create(b, x, e.index(by));
    };
    Value first =
        multiply(add(multiply(part.warp, countChunks()), chunk), kChunk);
    first = add(first, part.lane);
    SmallVector<Entry> entries;
    for (int64_t i = 0; i < kTogether; ++i) {
      Value token = add(first, e.index(i * kWarp));
      Value exists = is(Is::ult, token, e.index(lists.tokens));
      token = select(exists, token, e.index(0));
      Value index =
          toIndex(e.pull(indices, at(token, lists.countEntries())).value);
      Value row = select(is(Is::slt, index, e.index(0)),
                         add(index, e.index(lists.rows)), index);
      Value isBelow = is(Is::slt, row, part.firstRow);
      Value isValid = is(Is::ult, row, e.index(lists.rows));
      Value isBad = arith::XOrIOp::create(
          b, isValid, arith::ConstantIntOp::create(b, 1, 1));
      row = arith::SubIOp::create(b, row, part.firstRow);
      Value isInside = is(Is::ult, row, part.rowCount);
      entries.push_back({token, index, row, both(exists, isInside),
                         both(exists, isBelow), both(exists, isBad)});
    }
    return entries;
  }

  /// Counts the part's indices and those of lower rows, and stores the
  /// bounds of the list. Returns where the warp's entries begin.
  Value findPlace(const Part &part, const Offset &number) {
    ImplicitLocOpBuilder &b = e.builder();
    SmallVector<Value> counts = e.loop(
        e.index(0), e.index(countChunks()), 1, {word(0), word(0), e.index(0)},
        [&](Value chunk, ValueRange now) {
          SmallVector<Value> next(now);
          auto increase = [&](Value &sum, Value condition) {
            sum =
                add(sum, arith::ExtUIOp::create(b, b.getI32Type(), condition));
          };
          for (const Entry &entry : readChunk(part, chunk)) {
            increase(next[0], entry.isInside);
            increase(next[1], entry.isBelow);
            next[2] = select(entry.isBad, entry.index, next[2]);
          }
          return next;
        });
    e.checkIndex(counts[2], lists.rows);
    Value shared = e.allocate(2 * kWarps, b.getI32Type());
    for (int64_t which : {0, 1}) {
      Value sum =
          e.combineNeighbours(counts[which], kWarp, vector::CombiningKind::ADD);
      Offset place = at(part.warp, kWarps) + Offset(which * kWarps);
      when(is(Is::eq, part.lane, e.index(0)),
           [&] { e.store(shared, sum, place); });
    }
    e.barrier();
    Value inside = word(0), below = word(0), before = word(0);
    for (int64_t warp = 0; warp < kWarps; ++warp) {
      Value own = e.loadNow(shared, Offset(warp));
      Value isBefore = is(Is::ult, e.index(warp), part.warp);
      before = add(before, select(isBefore, own, word(0)));
      inside = add(inside, own);
      below = add(below, e.loadNow(shared, Offset(kWarps + warp)));
    }
    Value bounds = lists.viewBounds(e);
    when(is(Is::eq, e.threadPlace().first, e.index(0)), [&] {
      e.store(bounds, below, number);
      e.store(bounds, inside, number + Offset(lists.parts));
    });
    return add(below, before);
  }

  /// Stores the entries of a chunk that belong to the part from `place` on.
  /// Returns the next place.
  Value storeChunk(const Part &part, Value chunk, Value place) {
    ImplicitLocOpBuilder &b = e.builder();
    Value rowsOfEntries = lists.viewRows(e),
          tokensOfEntries = lists.viewTokens(e);
    Value bit = arith::ShLIOp::create(b, word(1), toWord(part.lane));
    Value lower = arith::SubIOp::create(b, bit, word(1));
    for (const Entry &entry : readChunk(part, chunk)) {
      Value bits = vote(entry.isInside, part.lane);
      Value own = add(place, count(both(bits, lower)));
      when(entry.isInside, [&] {
        Offset to = at(toIndex(own), lists.countEntries());
        e.store(rowsOfEntries, toWord(entry.row), to);
        e.store(tokensOfEntries, toWord(entry.token), to);
      });
      place = add(place, count(bits));
    }
    return place;
  }

  Value indices;
  const ScatterLists &lists;
};
} // namespace

void ScatterLists::emitPart(Emitter &e, Value indices,
                            const Offset &part) const {
  if (tokens > 0)
    ListKernel(e, indices, *this).emitPart(part);
}
