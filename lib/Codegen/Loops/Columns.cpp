//===- Columns.cpp - Reductions that keep the last axis -------------------===//
//
// Sums over rows, such as the gradient of a bias. A work item reduces a block
// of rows, whose size depends only on the shape, to one row of partial results
// in the workspace; `finish` adds these in order, and computes the results that
// depend on the sums and have one element per column.
//
// A variance depends on the mean, but is computed in the same pass, from sums
// in f64 of differences to the first row. Anything else that depends on sums
// needs work items that have all rows (Tiles.cpp).
//
//===----------------------------------------------------------------------===//

#include "ColumnSums.h"
#include "Moments.h"
#include "RowBlocks.h"
#include "binade/IR/Build.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

/// Maximum number of row blocks, and minimum rows and approximate number of
/// elements of one.
static constexpr int64_t kMaxChunks = 64, kMinRows = 64, kChunkElements = 32768;
/// Columns of a work item.
static constexpr int64_t kWideBlock = 1024;
/// Threads of a GPU along a row: a warp, which reads up to 512 bytes of it.
/// Reads of one cache line per row reach less DRAM bandwidth.
static constexpr int64_t kAcross = 32;
/// Minimum rows per thread of a GPU, the most that it adds where columns occupy
/// all multiprocessors, bits of its registers that loads of
/// several rows may fill at the same time, and the most elements of these.
static constexpr int64_t kRowsOfThread = 8, kMaxRowsOfThread = 32;
static constexpr int64_t kLoadedBits = 64 * 32, kElementsInFlight = 32;
/// Up to as many columns, partial results are kept in registers.
static constexpr int64_t kRegisterColumns = 64;
/// Rows that are added in sequence: sums of thousands of rows in f32 would lose
/// three digits.
static constexpr int64_t kRowsInTurn = 64;

namespace {
/// Emits a kernel whose reductions keep the last axis.
class ColumnKernel {
public:
  explicit ColumnKernel(const KernelSource &source)
      : source(source), results(source.getResults()) {}

  FailureOr<KernelInfo> emit() {
    if (failed(collect()))
      return failure();
    // A work item of a tile has all rows, so that they can share arithmetic.
    if (!isOnePass || (source.readsNeighbors && !source.shape))
      return emitTiles(source);
    chooseBlocks();
    KernelInfo info;
    info.symbol = source.symbol;
    info.extent = batches * chunks * blocks;
    info.grain = std::max<int64_t>(
        1, kTaskElements / std::max<int64_t>(1, rowsPerChunk * kWideBlock));
    info.hasStatus = source.hasIndices();
    info.hasFinish = chunks > 1;
    info.workspaceBytes = kStatusBytes + countCells() * getCellBytes();
    SmallVector<Type> buffers = source.getBuffers(info.workspaceBytes);
    Emitter items(source.function, source.formulas, source.into,
                  source.symbol + ".items", buffers, 2, shape);
    items.forItems(info.extent,
                   [&](const Offset &item) { emitItem(items, item); });
    if (!info.hasFinish) {
      setInPlace(items, info);
      return failed(items.status()) ? FailureOr<KernelInfo>() : info;
    }
    Emitter finish(source.function, source.formulas, source.into,
                   source.symbol + ".finish", buffers, 1, finishShape);
    emitFinish(finish);
    setInPlace(items, info, &finish);
    if (failed(items.status()) || failed(finish.status()))
      return failure();
    return info;
  }

private:
  //===--------------------------------------------------------------------===//
  // Choice of loops
  //===--------------------------------------------------------------------===//

  bool isFull(Value value) const {
    return getTensor(value).getNumElements() == loops.getElements();
  }
  bool isPerColumn(Value value) const {
    return !isFull(value) &&
           getTensor(value).getNumElements() == loops.getKept();
  }

  LogicalResult collect() {
    DenseSet<Value> late; // Values that depend on reductions.
    for (Operation &op : source.function.front().without_terminator()) {
      bool isLate = llvm::any_of(op.getOperands(), [&](Value operand) {
        return late.contains(operand);
      });
      std::optional<Reduction> reduction = Reduction::from(&op);
      if (reduction && !reduction->leavesColumns()) {
        isOnePass = false; // It has groups in rows.
      } else if (reduction) {
        if (reductions.empty())
          loops = reduction->getLoops();
        else if (!(reduction->getLoops() == loops))
          return op.emitOpError("reduces over other axes than ")
                 << reductions.front().op->getName()
                 << " of the same kernel; move it to a kernel of its own";
        std::optional<Moments> found;
        if (isLate && (found = findMoments(*reduction, reductions)))
          moments.push_back(*found);
        isOnePass &= !isLate || found;
        reductions.push_back(*reduction);
      }
      if (isLate || reduction)
        late.insert_range(op.getResults());
    }
    for (auto [index, result] : llvm::enumerate(results))
      if (isFull(result)) {
        isOnePass &= !late.contains(result);
        stores.push_back(index);
      }
    return success();
  }

  void chooseBlocks() {
    columns = loops.getColumns();
    rows = loops.getReduced();
    batches = loops.getKept() / columns;
    int64_t wanted =
        llvm::divideCeil(kChunkElements, std::min(columns, kWideBlock));
    wanted =
        std::max({wanted, kMinRows,
                  static_cast<int64_t>(llvm::divideCeil(rows, kMaxChunks))});
    if (source.shape)
      wanted = chooseThreads();
    rowsPerChunk = std::clamp<int64_t>(rows, 1, wanted);
    chunks = std::max<int64_t>(1, llvm::divideCeil(rows, rowsPerChunk));
    blocks = llvm::divideCeil(columns, width);
  }

  /// Returns the number of rows per work item. If possible, all of them have
  /// the same number of rows, and all threads the same number of these.
  int64_t chooseThreads() {
    shape = source.shape->fit(source.chooseLanes(columns), columns, rows);
    // More threads along many rows: each then adds few of them, though blocks
    // leave few partial results.
    if (int64_t down = shape->threads / kAcross;
        shape->team > kAcross && rows >= down * kRowsOfThread) {
      shape->team = kAcross;
      shape->down = down;
    }
    finishShape = getFinishShape(*shape, columns);
    width = shape->team * shape->lanes;
    rowsInFlight = countRowsInFlight();
    int64_t wanted = std::max<int64_t>(llvm::divideCeil(rows, kMaxItems),
                                       shape->down * kRowsOfThread);
    int64_t others = batches * llvm::divideCeil(columns, width);
    if (others >= kMaxItems / 2 && rows <= shape->down * kMaxRowsOfThread)
      wanted = rows;
    int64_t step = shape->down * rowsInFlight, found = 0;
    for (int64_t count = step; count <= 2 * wanted; count += step)
      if (rows % count == 0 && 2 * count >= wanted &&
          (!found || std::abs(count - wanted) < std::abs(found - wanted)))
        found = count;
    isEven = found > 0;
    return isEven ? found : llvm::alignTo(wanted, step);
  }

  /// Returns how many rows a thread loads before it computes anything.
  int64_t countRowsInFlight() {
    int64_t bits = 0;
    for (Value x : source.function.getArguments())
      if (isFull(x))
        bits += std::max(16u, getTensor(x).getElementTypeBitWidth());
    int64_t most = std::min<int64_t>(kElementsInFlight / shape->lanes,
                                     llvm::divideCeil(rows, shape->down));
    return std::clamp<int64_t>(kLoadedBits /
                                   std::max<int64_t>(1, bits * shape->lanes),
                               1, std::max<int64_t>(1, most));
  }

  //===--------------------------------------------------------------------===//
  // Partial results
  //===--------------------------------------------------------------------===//

  /// Partial results have 8 bytes each, so that f64 fits, and are ordered as
  /// [batch, chunk, column] for each reduction.
  int64_t getCellBytes() const { return batches * chunks * columns * 8; }
  int64_t countCells() const { return reductions.size() + 2 * moments.size(); }

  bool isOfMoments(Reduction reduction) const {
    return llvm::any_of(moments, [&](const Moments &m) {
      return m.sum.op == reduction.op || m.squares.op == reduction.op;
    });
  }

  Value view(Emitter &e, int64_t cell, Type type) {
    return e.viewWorkspace(kStatusBytes + cell * getCellBytes(),
                           batches * chunks * columns, type);
  }
  int64_t getCell(Reduction reduction) const {
    return llvm::find_if(reductions,
                         [&](Reduction r) { return r.op == reduction.op; }) -
           reductions.begin();
  }
  /// Returns the sums of differences, the sums of their squares, or the shifts
  /// that were subtracted.
  Value viewMoments(Emitter &e, unsigned index, unsigned which) {
    int64_t cell = reductions.size() + 2 * index;
    if (which < 2)
      return view(e, cell + which, e.builder().getF64Type());
    // The cell of the sum itself is not used otherwise.
    return view(e, getCell(moments[index].sum), e.builder().getF32Type());
  }

  //===--------------------------------------------------------------------===//
  // Work items
  //===--------------------------------------------------------------------===//

  /// A work item: a block of rows of one batch, and a block of columns.
  struct Item {
    Offset batch, chunk;
    Value firstRow, endRow, firstColumn;
    unsigned depth;
  };

  Item locate(Emitter &e, const Offset &counter) {
    ImplicitLocOpBuilder &b = e.builder();
    auto [rest, block] = e.offsets().divide(counter, blocks).asPair();
    auto [batch, chunk] = e.offsets().divide(rest, chunks).asPair();
    Value first = e.number(chunk * rowsPerChunk);
    Value end = arith::MinUIOp::create(
        b, arith::AddIOp::create(b, first, e.index(rowsPerChunk)),
        e.index(rows));
    return {batch, chunk, first, end, e.number(block * width), e.depth()};
  }

  void forColumns(Emitter &e, const Item &item,
                  llvm::function_ref<void(const Offset &)> body) {
    if (shape)
      return e.ownColumns(item.firstColumn, columns, /*group=*/0, body);
    e.columnBlock(item.firstColumn, width, columns, {},
                  [&](const Offset &column, ValueRange) {
                    body(column);
                    return SmallVector<Value>();
                  });
  }

  Offset getPartial(const Item &item, const Offset &column) const {
    return (item.batch * chunks + item.chunk) * columns + column;
  }

  void emitItem(Emitter &e, const Offset &counter) {
    Item item = locate(e, counter);
    SmallVector<Reduction> own = getOwn();
    if (shape || std::min(columns, kWideBlock) <= kRegisterColumns)
      emitInRegisters(e, item, own);
    else
      emitInMemory(e, item, own);
    if (chunks > 1)
      return;
    e.endPass();
    // With one chunk the partial results are the totals.
    forColumns(e, item, [&](const Offset &column) {
      defineTotals(e, item.batch, column, own);
      emitPerColumn(e, item.batch * columns + column);
    });
    emitOthersOnce(e, counter);
  }

  /// Returns the reductions that are not part of moments.
  SmallVector<Reduction> getOwn() const {
    SmallVector<Reduction> own;
    for (Reduction reduction : reductions)
      if (!isOfMoments(reduction))
        own.push_back(reduction);
    return own;
  }

  SmallVector<Value> start(Emitter &e, ArrayRef<Reduction> own) {
    ImplicitLocOpBuilder &b = e.builder();
    SmallVector<Value> values;
    for (Reduction reduction : own)
      values.push_back(reduction.start(b, e.lanes()));
    auto zeros = VectorType::get({e.lanes()}, b.getF64Type());
    if (!moments.empty())
      values.append(2 * moments.size(),
                    arith::ConstantOp::create(b, b.getZeroAttr(zeros)));
    return values;
  }

  /// Combines the element at `offset` with each value.
  SmallVector<Value> step(Emitter &e, ArrayRef<Reduction> own,
                          ArrayRef<Value> shifts, const Offset &offset,
                          ValueRange now) {
    ImplicitLocOpBuilder &b = e.builder();
    SmallVector<Value> next;
    for (auto [reduction, value] : llvm::zip(own, now))
      next.push_back(reduction.combine(
          b, value, e.pullLanes(reduction.getInput(), offset)));
    now = now.drop_front(own.size());
    auto type = VectorType::get({e.lanes()}, b.getF64Type());
    for (auto [index, m] : llvm::enumerate(moments)) {
      Value x = arith::ExtFOp::create(b, type, e.pullLanes(m.x, offset));
      Value difference = arith::SubFOp::create(
          b, x, arith::ExtFOp::create(b, type, shifts[index]));
      Value square = arith::MulFOp::create(b, difference, difference);
      next.push_back(arith::AddFOp::create(b, now[2 * index], difference));
      next.push_back(arith::AddFOp::create(b, now[2 * index + 1], square));
    }
    return next;
  }

  /// Returns the memory for the values of `step` between rows.
  SmallVector<Value> getMemories(Emitter &e, ArrayRef<Reduction> own) {
    SmallVector<Value> memories;
    for (Reduction reduction : own)
      memories.push_back(
          view(e, getCell(reduction), reduction.getPartialType()));
    for (unsigned index = 0; index < moments.size(); ++index)
      for (unsigned which : {0, 1})
        memories.push_back(viewMoments(e, index, which));
    return memories;
  }

  Offset getOffset(Emitter &e, const Item &item, const Offset &row,
                   const Offset &column) {
    Offset offset = loops.getOffset(e.offsets(), item.batch, row, column);
    e.setPlaces(offset, std::nullopt);
    return offset;
  }

  /// Loads what results and reductions are computed from at `offset`.
  void load(Emitter &e, const Offset &offset) {
    SmallVector<Value> needed = llvm::map_to_vector(
        stores, [&](unsigned index) { return results[index]; });
    for (Reduction reduction : reductions)
      needed.push_back(reduction.getInput());
    loadElements(e, std::move(needed), offset,
                 [&](Value value) { return isFull(value); });
  }

  void emitInRegisters(Emitter &e, const Item &item, ArrayRef<Reduction> own) {
    SmallVector<Value> memories = getMemories(e, own);
    forColumns(e, item, [&](const Offset &column) {
      SmallVector<Value> shifts = emitShifts(e, item, column);
      auto combine = [&](unsigned index, Value x, Value y) {
        // Sums of moments follow the others.
        Reduction reduction = index < own.size() ? own[index] : moments[0].sum;
        return reduction.combine(e.builder(), x, y);
      };
      auto addRows = [&](Value first, Value end) {
        auto add = [&](const Offset &row, ValueRange now) {
          Offset offset = getOffset(e, item, row, column);
          auto next = step(e, own, shifts, offset, now);
          storeResults(e, stores, offset);
          return next;
        };
        if (!shape)
          return e.rows(first, end, rows, start(e, own), add);
        auto loadRow = [&](const Offset &row) {
          Offset offset = getOffset(e, item, row, column);
          // Threads without a row load one that another thread may overwrite.
          if (!isEven)
            e.setPlaces(std::nullopt, std::nullopt);
          load(e, offset);
        };
        return forRowBlocks(e, first, end, rows, start(e, own),
                            {shape->down, rowsInFlight, isEven}, loadRow, add);
      };
      SmallVector<Value> values;
      if (shape || rowsPerChunk <= kRowsInTurn)
        values = addRows(item.firstRow, item.endRow);
      else
        values = e.loop(
            item.firstRow, item.endRow, kRowsInTurn, start(e, own),
            [&](Value first, ValueRange now) {
              ImplicitLocOpBuilder &b = e.builder();
              Value end = arith::MinUIOp::create(
                  b, arith::AddIOp::create(b, first, e.index(kRowsInTurn)),
                  item.endRow);
              SmallVector<Value> sums = addRows(first, end);
              for (auto [index, sum] : llvm::enumerate(sums))
                sum = combine(index, now[index], sum);
              return sums;
            });
      for (auto [index, value] : llvm::enumerate(values)) {
        Value all = e.combineThreads(
            value, [&](Value x, Value y) { return combine(index, x, y); });
        e.storeOnce(memories[index], all, getPartial(item, column));
      }
    });
  }

  void emitInMemory(Emitter &e, const Item &item, ArrayRef<Reduction> own) {
    SmallVector<Value> memories = getMemories(e, own);
    forColumns(e, item, [&](const Offset &column) {
      emitShifts(e, item, column);
      for (auto [memory, value] : llvm::zip(memories, start(e, own)))
        e.storeLanes(memory, value, getPartial(item, column));
    });
    e.loop(item.firstRow, item.endRow, 1, {}, [&](Value number, ValueRange) {
      Offset row = e.offsets().counter(number, rows, e.depth());
      forColumns(e, item, [&](const Offset &column) {
        Offset offset = getOffset(e, item, row, column);
        Offset partial = getPartial(item, column);
        SmallVector<Value> now, shifts;
        for (Value memory : memories)
          now.push_back(e.broadcast(e.loadNow(memory, partial)));
        for (unsigned index = 0; index < moments.size(); ++index)
          shifts.push_back(
              e.broadcast(e.load(viewMoments(e, index, 2),
                                 e.builder().getF32Type(), partial, item.depth)
                              .value));
        auto next = step(e, own, shifts, offset, now);
        storeResults(e, stores, offset);
        for (auto [memory, value] : llvm::zip(memories, next))
          e.storeLanes(memory, value, partial);
      });
      return SmallVector<Value>();
    });
  }

  /// Returns the shifts of moments: the first row, or 0 where it is not finite.
  /// A value of the data is close to the mean, so that differences lose no
  /// precision.
  SmallVector<Value> emitShifts(Emitter &e, const Item &item,
                                const Offset &column) {
    ImplicitLocOpBuilder &b = e.builder();
    SmallVector<Value> shifts;
    for (auto [index, m] : llvm::enumerate(moments)) {
      Offset first = loops.getOffset(e.offsets(), item.batch, Offset(), column);
      e.setPlaces(std::nullopt, std::nullopt);
      Value x = e.pullLanes(m.x, first);
      Value magnitude = math::AbsFOp::create(b, x);
      Value finite = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT,
                                           magnitude, splat(b, x, INFINITY));
      shifts.push_back(arith::SelectOp::create(b, finite, x, splat(b, x, 0.0)));
      e.storeOnce(viewMoments(e, index, 2), shifts.back(),
                  getPartial(item, column));
    }
    return shifts;
  }

  //===--------------------------------------------------------------------===//
  // Totals
  //===--------------------------------------------------------------------===//

  /// Defines the results of the reductions at a column, from all chunks in
  /// order.
  void defineTotals(Emitter &e, const Offset &batch, const Offset &column,
                    ArrayRef<Reduction> own) {
    ImplicitLocOpBuilder &b = e.builder();
    Offset first = batch * (chunks * columns) + column;
    Offset place = batch * columns + column;
    for (Reduction reduction : own)
      reduction.define(e,
                       combinePartials(e, finishShape, reduction,
                                       view(e, getCell(reduction),
                                            reduction.getPartialType()),
                                       first, columns, chunks),
                       place);
    for (auto [index, m] : llvm::enumerate(moments)) {
      auto combine = [&, index = index, &m = m](unsigned which) {
        return combinePartials(e, finishShape, m.sum,
                               viewMoments(e, index, which), first, columns,
                               chunks);
      };
      Value sum = combine(0), squares = combine(1);
      Value shift = e.loadNow(viewMoments(e, index, 2), first);
      Value count = splat(b, sum, static_cast<double>(rows));
      Value wide = arith::ExtFOp::create(b, sum.getType(), shift);
      Value total =
          arith::AddFOp::create(b, arith::MulFOp::create(b, wide, count), sum);
      Value lost =
          arith::DivFOp::create(b, arith::MulFOp::create(b, sum, sum), count);
      Value rest = arith::SubFOp::create(b, squares, lost);
      Value zero = splat(b, rest, 0.0);
      Value below =
          arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, rest, zero);
      rest = arith::SelectOp::create(b, below, zero, rest);
      m.sum.define(e, e.narrow(total, b.getF32Type()), place);
      m.squares.define(e, e.narrow(rest, b.getF32Type()), place);
    }
  }

  /// Stores the results that have one element per column.
  void emitPerColumn(Emitter &e, const Offset &place) {
    e.setPlaces(std::nullopt, std::nullopt);
    for (auto [index, result] : llvm::enumerate(results))
      if (isPerColumn(result))
        e.storeResult(index, e.pull(result, place).value, place);
  }

  void emitOthersOnce(Emitter &e, const Offset &item) {
    SmallVector<unsigned> others;
    for (auto [index, result] : llvm::enumerate(results))
      if (!isFull(result) && !isPerColumn(result))
        others.push_back(index);
    emitSmallResults(e, others, item);
  }

  void emitFinish(Emitter &e) {
    SmallVector<Reduction> own = getOwn();
    // On a CPU a work item has all columns.
    int64_t width = finishShape ? finishShape->team * finishShape->lanes : 1;
    int64_t parts = shape ? llvm::divideCeil(columns, width) : 1;
    e.forAll(batches * parts, [&](const Offset &counter) {
      auto [batch, part] = e.offsets().divide(counter, parts).asPair();
      Item item = {batch, Offset(), {}, {}, e.number(part * width), e.depth()};
      auto emitTotals = [&, batch = batch](const Offset &column) {
        defineTotals(e, batch, column, own);
        emitPerColumn(e, batch * columns + column);
      };
      if (shape)
        forColumns(e, item, emitTotals);
      else
        e.columns(columns, {}, [&](const Offset &column, ValueRange) {
          emitTotals(column);
          return SmallVector<Value>();
        });
      if (shape)
        emitOthersOnce(e, counter);
    });
    if (!shape)
      emitOthersOnce(e, Offset());
  }

  KernelSource source;
  SmallVector<Value> results;
  SmallVector<Reduction> reductions;
  SmallVector<Moments> moments;
  SmallVector<unsigned> stores; ///< Results as large as the operand.
  Loops loops;
  bool isOnePass = true; ///< No element depends on a reduction.
  /// On a GPU: whether all threads of all work items have equally many rows,
  /// and how many rows a thread loads at the same time.
  bool isEven = false;
  int64_t rowsInFlight = 1;
  int64_t columns = 1, rows = 1, batches = 1;
  int64_t rowsPerChunk = 1, chunks = 1, blocks = 1;
  int64_t width = kWideBlock; ///< Columns of a work item.
  std::optional<GpuShape> shape, finishShape;
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitColumns(const KernelSource &source) {
  return ColumnKernel(source).emit();
}
