//===- Tiles.cpp - Multi-pass reductions over columns ---------------------===//
//
// Reductions that keep the last axis, and results that depend on them. A work
// item has all rows of a few columns, so that what it reads again is in the
// cache; groups of adjacent elements in its rows are reduced in the same pass.
// `PassPlan` decides how many passes over its elements there are.
//
//===----------------------------------------------------------------------===//

#include "PassPlan.h"

using namespace mlir;
using namespace mlir::binade;

/// Rows that are computed from each other without a loop, so that they share
/// intermediate results in registers: those of a group of a Hadamard transform.
static constexpr int64_t kMaxUnrolledRows = 32;

namespace {
/// Emits a kernel of tiles for a CPU.
class TileKernel {
public:
  TileKernel(const KernelSource &source, PassPlan plan)
      : source(source), plan(std::move(plan)), columns(loops.getColumns()),
        rows(loops.getReduced()), batches(loops.getKept() / columns),
        blocks(llvm::divideCeil(columns, this->plan.width)) {
    for (const ElementPass &pass : this->plan.passes)
      for (Reduction reduction : pass.getReductions())
        cells.try_emplace(reduction.op, cells.size());
  }

  FailureOr<KernelInfo> emit() {
    KernelInfo info;
    info.symbol = source.symbol;
    info.extent = batches * blocks;
    info.grain = std::max<int64_t>(
        1, kTaskElements / std::max<int64_t>(1, rows * plan.width));
    info.hasStatus = source.hasIndices();
    info.workspaceBytes = kStatusBytes + 2 * cells.size() * getCellBytes();
    emitter.emplace(source.function, source.formulas, source.into,
                    source.symbol + ".items",
                    TypeRange(source.getBuffers(info.workspaceBytes)), 2);
    emitter->forItems(info.extent, [&](const Offset &item) { emitItem(item); });
    setInPlace(*emitter, info);
    if (failed(emitter->status()))
      return failure();
    return info;
  }

private:
  /// The batch and the block of columns of a work item.
  struct Item {
    Offset batch, block;
  };
  /// A column of the operand, and of the work item if all have as many columns.
  struct Column {
    Offset whole, own;
  };

  void emitItem(const Offset &counter) {
    Emitter &e = *emitter;
    auto [batch, block] = e.offsets().divide(counter, blocks).asPair();
    Item item = {batch, block};
    for (const ElementPass &pass : plan.passes) {
      SmallVector<Reduction> reductions = pass.getReductions();
      if (pass.hasGroups())
        emitByRows(pass, reductions, item);
      else
        for (const Step &step : pass.steps)
          if (!step.isEmpty())
            emitByColumns(step, item);
      finish(reductions, item);
    }
    SmallVector<unsigned> ofColumns, others;
    for (auto [index, result] : llvm::enumerate(results))
      if (plan.isPerKept(result))
        ofColumns.push_back(index);
      else if (!plan.isFull(result) && !plan.isPerGroup(result))
        others.push_back(index);
    if (!ofColumns.empty())
      forColumns(item, [&](const Column &column) {
        e.setPlaces(std::nullopt, std::nullopt);
        storeResults(e, ofColumns, getPlace(item, column.whole));
      });
    emitSmallResults(e, others, counter);
    for (Value value : placed)
      e.forgetPlace(value);
    placed.clear();
    kept.clear();
  }

  void forColumns(const Item &item,
                  llvm::function_ref<void(const Column &)> body) {
    Emitter &e = *emitter;
    Offset first = item.block * plan.width;
    if (plan.isEven()) {
      e.columns(plan.width, {}, [&](const Offset &own, ValueRange) {
        body({first + own, own});
        return SmallVector<Value>();
      });
      return;
    }
    e.columnBlock(e.number(first), plan.width, columns, {},
                  [&](const Offset &whole, ValueRange) {
                    body({whole, Offset()});
                    return SmallVector<Value>();
                  });
  }

  /// Returns the offset of a column's result.
  Offset getPlace(const Item &item, const Offset &column) const {
    return item.batch * columns + column;
  }

  //===--------------------------------------------------------------------===//
  // Passes over the elements
  //===--------------------------------------------------------------------===//

  /// Processes one column after the other, with partial results in registers.
  void emitByColumns(const Step &step, const Item &item) {
    Emitter &e = *emitter;
    forColumns(item, [&](const Column &column) {
      SmallVector<Value> values = start(step.reductions);
      if (source.readsNeighbors && rows <= kMaxUnrolledRows)
        for (int64_t row = 0; row < rows; ++row)
          values = emitElement(step, item, row, column, values);
      else
        values = e.loop(e.index(0), e.index(rows), 1, values,
                        [&](Value number, ValueRange now) {
                          Offset row =
                              e.offsets().counter(number, rows, e.depth());
                          return emitElement(step, item, row, column, now);
                        });
      for (auto [reduction, value] : llvm::zip(step.reductions, values))
        e.storeLanes(viewPartial(reduction), value,
                     getPlace(item, column.whole));
    });
    leave(step);
  }

  /// Processes one row after the other, and in it one group after the other,
  /// with the partial results of columns in memory.
  void emitByRows(const ElementPass &pass, ArrayRef<Reduction> reductions,
                  const Item &item) {
    Emitter &e = *emitter;
    forColumns(item, [&](const Column &column) {
      for (auto [reduction, value] : llvm::zip(reductions, start(reductions)))
        e.storeLanes(viewPartial(reduction), value,
                     getPlace(item, column.whole));
    });
    e.loop(e.index(0), e.index(rows), 1, {}, [&](Value number, ValueRange) {
      Offset row = e.offsets().counter(number, rows, e.depth());
      int64_t count = plan.width / plan.group;
      e.loop(e.index(0), e.index(count), 1, {}, [&](Value entry, ValueRange) {
        Offset group = e.offsets().counter(entry, count, e.depth());
        emitGroup(pass, item, row, group);
        return SmallVector<Value>();
      });
      return SmallVector<Value>();
    });
    for (const Step &step : pass.steps)
      leave(step);
  }

  /// Emits all steps over group `group` of a row.
  void emitGroup(const ElementPass &pass, const Item &item, const Offset &row,
                 const Offset &group) {
    Emitter &e = *emitter;
    Offset first = item.block * plan.width;
    Offset line =
        e.offsets()
            .divide(loops.getOffset(e.offsets(), item.batch, row, Offset()),
                    columns)
            .quotient;
    Offset place = line * (columns / plan.group) +
                   item.block * (plan.width / plan.group) + group;
    for (const Step &step : pass.steps) {
      if (!step.isEmpty()) {
        SmallVector<Value> partials = startLanes(step.groups);
        partials = e.columns(
            plan.group, partials, [&](const Offset &lane, ValueRange carried) {
              Offset own = group * plan.group + lane;
              Column column = {first + own, own};
              Offset at = getPlace(item, column.whole);
              SmallVector<Value> now;
              for (Reduction reduction : step.reductions)
                now.push_back(
                    e.broadcast(e.loadNow(viewPartial(reduction), at)));
              llvm::append_range(now, carried);
              SmallVector<Value> next =
                  emitElement(step, item, row, column, now);
              for (auto [reduction, value] : llvm::zip(step.reductions, next))
                e.storeLanes(viewPartial(reduction), value, at);
              return SmallVector<Value>(
                  ArrayRef(next).drop_front(step.reductions.size()));
            });
        for (auto [reduction, partial] : llvm::zip(step.groups, partials))
          reduction.define(e, reduction.finish(e, partial), place);
      }
      leave(step);
    }
    storeResults(e, pass.groupStores, place);
  }

  /// Emits what `step` computes for an element. Returns the partial results of
  /// columns, then of groups.
  SmallVector<Value> emitElement(const Step &step, const Item &item,
                                 const Offset &row, const Column &column,
                                 ValueRange now) {
    Emitter &e = *emitter;
    Offset offset = loops.getOffset(e.offsets(), item.batch, row, column.whole);
    e.setPlaces(offset, std::nullopt);
    Offset own = row * plan.width + column.own;
    for (Value value : kept)
      e.define(value, offset,
               e.load(buffers[value], getTensor(value).getElementType(), own,
                      e.depth())
                   .value);
    SmallVector<Value> next;
    for (auto [reduction, partial] : llvm::zip(step.reductions, now))
      next.push_back(reduction.combine(
          e.builder(), partial, e.pullLanes(reduction.getInput(), offset)));
    for (auto [reduction, partial] :
         llvm::zip(step.groups, now.drop_front(step.reductions.size())))
      next.push_back(reduction.accumulate(e, partial, offset));
    storeElement(e, step, offset, buffers, rows * plan.width, own);
    return next;
  }

  /// Ends `step`: later steps may read what it stored.
  void leave(const Step &step) {
    Emitter &e = *emitter;
    for (unsigned index : step.stores)
      place(results[index], e.resultBuffer(index));
    for (Value value : step.kept)
      if (!llvm::is_contained(kept, value))
        kept.push_back(value);
    e.nextPass();
  }

  //===--------------------------------------------------------------------===//
  // Reductions
  //===--------------------------------------------------------------------===//

  /// Partial results have 8 bytes each, so that f64 fits: entry [batch,
  /// column].
  int64_t getCellBytes() const { return batches * columns * 8; }
  Value view(unsigned cell, Type type) {
    return emitter->viewWorkspace(kStatusBytes + cell * getCellBytes(),
                                  batches * columns, type);
  }
  Value viewPartial(Reduction reduction) {
    return view(2 * cells.lookup(reduction.op), reduction.getPartialType());
  }
  Value viewTotal(Reduction reduction) {
    return view(2 * cells.lookup(reduction.op) + 1,
                getTensor(reduction.getResult()).getElementType());
  }

  /// Returns neutral partial results of columns.
  SmallVector<Value> start(ArrayRef<Reduction> reductions) {
    Emitter &e = *emitter;
    return llvm::map_to_vector(reductions, [&](Reduction reduction) {
      return reduction.start(e.builder(), e.lanes());
    });
  }
  /// Returns neutral partial results of groups.
  SmallVector<Value> startLanes(ArrayRef<Reduction> reductions) {
    return llvm::map_to_vector(reductions, [&](Reduction reduction) {
      return reduction.start(emitter->builder());
    });
  }

  /// Defines the results of `reductions` at the columns of `item`.
  void finish(ArrayRef<Reduction> reductions, const Item &item) {
    if (reductions.empty())
      return;
    Emitter &e = *emitter;
    forColumns(item, [&](const Column &column) {
      Offset at = getPlace(item, column.whole);
      for (Reduction reduction : reductions) {
        reduction.define(e, e.loadNow(viewPartial(reduction), at), at);
        e.store(viewTotal(reduction), e.pull(reduction.getResult(), at).value,
                at);
      }
    });
    for (Reduction reduction : reductions)
      place(reduction.getResult(), viewTotal(reduction));
  }

  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  void place(Value value, Value memory) {
    if (isa<BlockArgument>(value))
      return;
    emitter->place(value, memory, Offset());
    placed.push_back(value);
  }

  KernelSource source;
  const PassPlan plan;
  const Loops &loops = plan.loops;
  const SmallVector<Value> &results = plan.results;
  int64_t columns, rows, batches, blocks;
  DenseMap<Operation *, unsigned> cells; ///< Parts of the workspace.
  DenseMap<Value, Value> buffers;
  SmallVector<Value> placed, kept;
  std::optional<Emitter> emitter;
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitTiles(const KernelSource &source) {
  FailureOr<PassPlan> plan = PassPlan::ofTiles(source);
  if (failed(plan))
    return failure();
  if (plan->shape)
    return emitGpuTiles(source, std::move(*plan));
  return TileKernel(source, std::move(*plan)).emit();
}
