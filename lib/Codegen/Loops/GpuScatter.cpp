//===- GpuScatter.cpp - Scatter-add of rows by index on GPUs --------------===//
//
// A first kernel sorts the indices by parts of the table (ScatterLists.h). In a
// second one, a warp per row of the table searches the list of the row's part,
// and adds the rows of the gradient that it finds in registers. Each sum has
// the order of a loop over the indices.
//
//===----------------------------------------------------------------------===//

#include "GpuScatter.h"
#include "ScatterLists.h"
#include "ThreadCode.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

/// Entries of a list that a thread compares at a time, and a warp.
static constexpr int64_t kWords = 4, kEntriesTogether = kWords * kWarp;
/// Elements of a row that a thread adds, and rows that it loads at a time.
static constexpr int64_t kElementsOfThread = 16, kMaxTermsTogether = 4;
/// Elements that a thread loads at a time.
static constexpr int64_t kLoadedElements = 48;

namespace {
/// How warps divide the rows of the table.
struct RowShape {
  int64_t width, lanes;
  int64_t vectors;      ///< Of a thread.
  int64_t blockColumns; ///< Of a warp.
  int64_t columnBlocks;
  int64_t termsTogether; ///< Rows of the gradient that are loaded at a time.

  RowShape(int64_t width, int64_t lanes) : width(width), lanes(lanes) {
    int64_t blocks = llvm::divideCeil(width, kWarp * kElementsOfThread);
    vectors = llvm::divideCeil(llvm::divideCeil(width / lanes, blocks), kWarp);
    blockColumns = vectors * kWarp * lanes;
    columnBlocks = llvm::divideCeil(width, blockColumns);
    termsTogether = kMaxTermsTogether;
    while (termsTogether * vectors * lanes > kLoadedElements)
      termsTogether /= 2;
  }
};

/// Emits the kernel that adds rows.
class SumKernel : ThreadCode {
public:
  SumKernel(Emitter &emitter, GatherGradOp op, const ScatterLists &lists,
            const RowShape &shape)
      : ThreadCode(emitter), op(op), lists(lists), shape(shape) {}

  void emitRow(const Offset &item) {
    ImplicitLocOpBuilder &b = e.builder();
    auto [number, columnBlock] =
        e.offsets().divide(item, shape.columnBlocks).asPair();
    auto [part, within] = e.offsets().divide(number, lists.partRows).asPair();
    Value bounds = lists.viewBounds(e);
    Value lane = e.threadPlace().first;
    Row row = {toWord(e.number(within)), toIndex(e.loadNow(bounds, part)),
               toIndex(e.loadNow(bounds, part + Offset(lists.parts))), lane,
               getVectors(columnBlock, lane)};
    auto type = VectorType::get({shape.lanes}, getComputeType(getElement()));
    SmallVector<Value> sums(shape.vectors,
                            arith::ConstantOp::create(b, b.getZeroAttr(type)));
    Value filled = add(row.length, e.index(kEntriesTogether - 1));
    Value chunks = arith::DivUIOp::create(b, filled, e.index(kEntriesTogether));
    if (lists.tokens > 0)
      sums =
          e.loop(e.index(0), chunks, 1, sums, [&](Value chunk, ValueRange now) {
            return addChunk(row, chunk, now);
          });
    for (auto [vector, sum] : llvm::zip_equal(row.vectors, sums))
      e.forVector(vector, [&] {
        e.storeOnce(e.resultBuffer(0), e.narrow(sum, getElement()),
                    number * shape.width + vector.column);
      });
  }

private:
  Type getElement() { return getTensor(op.getDtable()).getElementType(); }

  /// A row of the table, and the part of the lists that it may be in.
  struct Row {
    Value number; ///< In its part.
    Value first, length;
    Value lane;
    SmallVector<RowVector> vectors;
  };

  /// Returns the thread's vectors of a row. A vector that does not exist is the
  /// row's first.
  SmallVector<RowVector> getVectors(const Offset &columnBlock, Value lane) {
    SmallVector<RowVector> vectors;
    for (int64_t i = 0; i < shape.vectors; ++i) {
      Value own =
          arith::MulIOp::create(e.builder(), lane, e.index(shape.lanes));
      Value column = add(own, e.number(columnBlock * shape.blockColumns +
                                       i * kWarp * shape.lanes));
      Value exists;
      if (shape.width % shape.blockColumns != 0) {
        exists = is(Is::ult, column, e.index(shape.width));
        column = select(exists, column, e.index(0));
      }
      Offset counter = e.offsets().counter(column, shape.width / shape.lanes,
                                           e.depth(), shape.lanes);
      vectors.push_back(
          {counter * shape.lanes + e.offsets().lanes(shape.lanes), exists});
    }
    return vectors;
  }

  /// Adds the rows of the gradient of a chunk's entries to `sums`.
  SmallVector<Value> addChunk(const Row &row, Value chunk, ValueRange sums) {
    ImplicitLocOpBuilder &b = e.builder();
    Value begin = arith::MulIOp::create(b, chunk, e.index(kEntriesTogether));
    Value rowsOfEntries = lists.viewRows(e);
    SmallVector<std::pair<Value, Value>> loaded;
    for (int64_t i = 0; i < kWords; ++i) {
      Value entry = add(add(begin, e.index(i * kWarp)), row.lane);
      Value exists = is(Is::ult, entry, row.length);
      entry = add(row.first, select(exists, entry, e.index(0)));
      loaded.emplace_back(
          e.loadNow(rowsOfEntries, at(entry, lists.countEntries())), exists);
    }
    SmallVector<Value> words, next(sums);
    for (auto [number, exists] : loaded)
      words.push_back(
          vote(both(exists, is(Is::eq, number, row.number)), row.lane));
    for (auto [index, bits] : llvm::enumerate(words)) {
      Value first = add(row.first, begin);
      first = add(first, e.index(static_cast<int64_t>(index) * kWarp));
      Value rest = addEntries(row, first, bits, shape.termsTogether, next);
      addEntries(row, first, rest, 1, next);
    }
    return next;
  }

  /// Adds the entries whose bits are set in `bits`, `together` at a time, and
  /// updates `sums`. Returns the remaining bits.
  Value addEntries(const Row &row, Value first, Value bits, int64_t together,
                   SmallVector<Value> &sums) {
    ImplicitLocOpBuilder &b = e.builder();
    Value turns = arith::DivUIOp::create(b, count(bits), word(together));
    SmallVector<Value> carried = {bits};
    llvm::append_range(carried, sums);
    carried = e.loop(
        e.index(0), toIndex(turns), 1, carried, [&](Value, ValueRange now) {
          Value rest = now.front();
          SmallVector<Value> entries;
          for (int64_t i = 0; i < together; ++i) {
            entries.push_back(add(first, toIndex(findLowest(rest))));
            rest = clearLowest(rest);
          }
          SmallVector<Value> next = {rest};
          llvm::append_range(next, addTerms(row, entries, now.drop_front()));
          return next;
        });
    sums.assign(carried.begin() + 1, carried.end());
    return carried.front();
  }

  /// Adds the rows of the gradient of `entries` in this order.
  SmallVector<Value> addTerms(const Row &row, ArrayRef<Value> entries,
                              ValueRange sums) {
    Value tokensOfEntries = lists.viewTokens(e);
    SmallVector<Offset> from = llvm::map_to_vector(entries, [&](Value entry) {
      Value token = e.loadNow(tokensOfEntries, at(entry, lists.countEntries()));
      return at(toIndex(token), lists.countEntries()) * shape.width;
    });
    SmallVector<SmallVector<Value>> terms(entries.size());
    for (auto [own, offset] : llvm::zip_equal(terms, from))
      for (const RowVector &vector : row.vectors)
        e.forVector(vector, [&] {
          own.push_back(e.pullLanes(op.getGradient(), offset + vector.column));
        });
    SmallVector<Value> next(sums);
    for (ArrayRef<Value> own : terms)
      for (auto [sum, term] : llvm::zip_equal(next, own))
        sum = arith::AddFOp::create(e.builder(), sum, term);
    return next;
  }

  GatherGradOp op;
  const ScatterLists &lists;
  const RowShape &shape;
};
} // namespace

static Emitter start(const KernelSource &source, StringRef suffix,
                     ArrayRef<Type> buffers, const GpuShape &shape) {
  return {source.function,
          source.formulas,
          source.into,
          source.symbol + suffix.str(),
          TypeRange(buffers),
          2,
          shape};
}

FailureOr<KernelInfo> mlir::binade::emitGpuScatter(const KernelSource &source,
                                                   GatherGradOp op) {
  RankedTensorType table = getTensor(op.getDtable());
  int64_t rows = table.getDimSize(0), width = table.getNumElements() / rows;
  ScatterLists lists(getTensor(op.getIndices()).getNumElements(), rows);
  RowShape shape(width, source.chooseLanes(width));
  KernelInfo info;
  info.symbol = source.symbol;
  info.extent = lists.parts;
  info.hasStatus = info.hasFinish = true;
  info.workspaceBytes = lists.getBytes();
  SmallVector<Type> buffers = source.getBuffers(info.workspaceBytes);
  GpuShape threads = *source.shape;
  threads.threads = threads.team = ScatterLists::kThreads;
  threads.lanes = 1;
  Emitter items = start(source, ".items", buffers, threads);
  items.forItems(lists.parts, [&](const Offset &part) {
    lists.emitPart(items, op.getIndices(), part);
  });
  threads = *source.shape;
  threads.team = kWarp;
  threads.lanes = shape.lanes;
  Emitter finish = start(source, ".finish", buffers, threads);
  finish.forItems(rows * shape.columnBlocks, [&](const Offset &item) {
    SumKernel(finish, op, lists, shape).emitRow(item);
  });
  setInPlace(items, info, &finish);
  if (failed(items.status()) || failed(finish.status()))
    return failure();
  return info;
}
