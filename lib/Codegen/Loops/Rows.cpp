//===- Rows.cpp - Elementwise kernels and row reductions ------------------===//
//
// A work item is one entry of the kept axes: a row or, for statistics of a
// channel, all its rows. `PassPlan` decides how many passes over its elements
// there are. A CPU, which only verifies kernels that reduce rows and columns,
// processes these in one work item.
//
//===----------------------------------------------------------------------===//

#include "PassPlan.h"

using namespace mlir;
using namespace mlir::binade;

/// Elements per block of a long row without reductions.
static constexpr int64_t kBlock = 4096;
static_assert(kLongRow % kBlock == 0);
/// Vectors per thread of a GPU in such a block.
static constexpr int64_t kVectorsOfThread = 4;

namespace {
/// Emits an elementwise kernel, or one with reductions over rows.
class RowKernel {
public:
  RowKernel(const KernelSource &source, PassPlan plan)
      : source(source), plan(std::move(plan)) {}

  FailureOr<KernelInfo> emit() {
    int64_t columns = loops.getColumns();
    int64_t longRow = kLongRow;
    if (const auto &shape = plan.shape)
      longRow = blockSize = shape->team * shape->lanes * kVectorsOfThread;
    bool isLong = !plan.hasReductions && columns > longRow;
    blocks = isLong ? llvm::divideCeil(columns, blockSize) : 1;
    KernelInfo info;
    info.symbol = source.symbol;
    info.extent = loops.getKept() * blocks;
    int64_t perItem = isLong ? blockSize : loops.getReduced();
    info.grain =
        std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, perItem));
    setBatchGrain(info, plan.shape);
    info.hasStatus = source.hasIndices();
    if (!plan.columnSums.empty())
      info.extent = 1;
    if (info.hasStatus || !plan.columnSums.empty())
      info.workspaceBytes = kStatusBytes + plan.columnSums.size() * columns * 8;

    emitter.emplace(
        source.function, source.formulas, source.into, source.symbol + ".items",
        TypeRange(source.getBuffers(info.workspaceBytes)), 2, plan.shape);
    emitter->forItems(
        info.extent,
        [&](const Offset &item) {
          if (plan.columnSums.empty())
            emitItem(item);
          else
            emitAllRows();
        },
        /*exchangesValues=*/plan.hasReductions);
    setInPlace(*emitter, info);
    if (failed(emitter->status()))
      return failure();
    return info;
  }

private:
  //===--------------------------------------------------------------------===//
  // Reductions of columns
  //===--------------------------------------------------------------------===//

  /// Returns the sums of a reduction that leaves columns, in f64.
  Value viewColumns(Reduction reduction) {
    int64_t columns = loops.getColumns();
    auto *found = llvm::find_if(
        plan.columnSums, [&](Reduction sum) { return sum.op == reduction.op; });
    int64_t index = found - plan.columnSums.begin();
    return emitter->viewWorkspace(kStatusBytes + index * columns * 8, columns,
                                  emitter->builder().getF64Type());
  }

  Value toF64(Value x) {
    ImplicitLocOpBuilder &b = emitter->builder();
    auto type = cast<VectorType>(x.getType()).clone(b.getF64Type());
    return x.getType() == type ? x
                               : arith::ExtFOp::create(b, type, x).getResult();
  }

  void forColumns(llvm::function_ref<void(const Offset &)> body) {
    emitter->columns(loops.getColumns(), {},
                     [&](const Offset &column, ValueRange) {
                       body(column);
                       return SmallVector<Value>();
                     });
  }

  void emitAllRows() {
    Emitter &e = *emitter;
    for (Reduction reduction : plan.columnSums)
      forColumns([&](const Offset &column) {
        e.storeLanes(viewColumns(reduction),
                     toF64(reduction.start(e.builder(), e.lanes())), column);
      });
    e.loop(e.index(0), e.index(loops.getKept()), 1, {},
           [&](Value row, ValueRange) {
             emitItem(e.offsets().counter(row, loops.getKept(), e.depth()));
             return SmallVector<Value>();
           });
    e.setPlaces(std::nullopt, std::nullopt);
    forColumns([&](const Offset &column) {
      for (Reduction reduction : plan.columnSums)
        reduction.define(e, e.loadNow(viewColumns(reduction), column), column);
      for (auto [index, result] : llvm::enumerate(results))
        if (plan.ofColumnSums.contains(result))
          e.storeResult(index, e.pull(result, column).value, column);
    });
  }

  void addToColumns(Reduction reduction, const Offset &offset,
                    const Offset &column) {
    Emitter &e = *emitter;
    Value memory = viewColumns(reduction);
    Value x = toF64(e.pullLanes(reduction.getInput(), offset));
    Value before = e.broadcast(e.loadNow(memory, column));
    e.storeLanes(memory, reduction.combine(e.builder(), before, x), column);
  }

  //===--------------------------------------------------------------------===//
  // Rows
  //===--------------------------------------------------------------------===//

  void emitItem(const Offset &counter) {
    Emitter &e = *emitter;
    Offset row = counter, block;
    if (blocks > 1)
      std::tie(row, block) = e.offsets().divide(counter, blocks).asPair();
    e.setPlaces(Offset(), row);
    for (const ElementPass &pass : plan.passes) {
      emitPass(pass, row, block);
      // With groups, threads have other columns than with rows.
      e.endPass(plan.group > 0 && &pass != &plan.passes.back());
    }
    SmallVector<unsigned> ofRows, others;
    for (auto [index, result] : llvm::enumerate(results))
      if (plan.isPerKept(result) && blocks == 1)
        ofRows.push_back(index);
      else if (!plan.isFull(result) && !plan.isPerGroup(result) &&
               !plan.ofColumnSums.contains(result))
        others.push_back(index);
    storeResults(e, ofRows, row);
    emitSmallResults(e, others, counter);
    for (Value value : placed)
      e.forgetPlace(value);
    placed.clear();
  }

  void emitPass(const ElementPass &pass, const Offset &row,
                const Offset &block) {
    Emitter &e = *emitter;
    if (pass.hasGroups())
      return emitGroups(pass, row);
    for (const Step &step : pass.steps) {
      if (!step.isEmpty())
        emitStep(step, row, block);
      e.nextPass();
    }
  }

  /// Emits a step without reductions over the columns [begin, begin + count) of
  /// a row, with the loads of several vectors of a thread before its arithmetic
  /// and stores.
  void emitVectors(const Step &step, const Offset &row, const Offset &begin,
                   int64_t count) {
    Emitter &e = *emitter;
    SmallVector<RowVector> all = e.splitRow(begin, count);
    ArrayRef<RowVector> rest = all;
    while (!rest.empty()) {
      auto together = rest.take_front(plan.vectorsInFlight);
      rest = rest.drop_front(together.size());
      for (bool isLoading : {true, false})
        for (const RowVector &vector : together)
          e.forVector(vector, [&] {
            Offset at =
                loops.getOffset(e.offsets(), row, Offset(), vector.column);
            e.setPlaces(at, row);
            DenseSet<Value> seen;
            if (isLoading)
              plan.loadOperands(e, step, at, seen);
            else
              storeResults(e, step.stores, at);
          });
    }
  }

  /// Does the same for a block of a long row.
  void emitBlock(const Step &step, const Offset &row, const Offset &block) {
    Emitter &e = *emitter;
    int64_t whole = loops.getColumns() / blockSize;
    Offset begin = block * blockSize;
    if (whole == blocks)
      return emitVectors(step, row, begin, blockSize);
    auto where = [&](arith::CmpIPredicate predicate,
                     llvm::function_ref<void()> body) {
      Value holds = arith::CmpIOp::create(e.builder(), predicate,
                                          e.number(block), e.index(whole));
      e.conditional(holds, {}, [&] {
        body();
        return SmallVector<Value>();
      });
    };
    where(arith::CmpIPredicate::ult,
          [&] { emitVectors(step, row, begin, blockSize); });
    where(arith::CmpIPredicate::uge, [&] {
      e.columnBlock(e.number(begin), blockSize, loops.getColumns(), {},
                    [&](const Offset &column, ValueRange now) {
                      return emitColumns(step, row, Offset(), column, now);
                    });
    });
  }

  /// Emits a step over all columns of a row or of a block of it.
  void emitStep(const Step &step, const Offset &row, const Offset &block) {
    Emitter &e = *emitter;
    if (plan.shape && !plan.hasReductions)
      return blocks > 1 ? emitBlock(step, row, block)
                        : emitVectors(step, row, Offset(), loops.getColumns());
    auto columns = [&](const Offset &outer, ValueRange carried) {
      auto body = [&](const Offset &column, ValueRange now) {
        return emitColumns(step, row, outer, column, now);
      };
      if (blocks == 1)
        return e.columns(loops.getColumns(), carried, body);
      Value begin = e.number(block * blockSize);
      return e.columnBlock(begin, blockSize, loops.getColumns(), carried, body);
    };
    SmallVector<Value> partials = start(step.reductions);
    int64_t outer = loops.getReduced() / loops.getColumns();
    if (!plan.hasReductions || outer == 1)
      partials = columns(Offset(), partials);
    else
      partials = e.rows(e.index(0), e.index(outer), outer, partials, columns);
    finish(step.reductions, partials, row);
    placeAll(step, row);
  }

  /// Emits all steps over each group in turn.
  void emitGroups(const ElementPass &pass, const Offset &row) {
    Emitter &e = *emitter;
    SmallVector<Reduction> reductions = pass.getReductions();
    int64_t count = loops.getColumns() / plan.group;
    SmallVector<Value> partials = e.groups(
        e.index(count), count, plan.group, start(reductions),
        [&](const Offset &number, ValueRange carried) {
          SmallVector<Value> next;
          for (const Step &step : pass.steps) {
            if (!step.isEmpty()) {
              SmallVector<Value> now(
                  carried.slice(next.size(), step.reductions.size()));
              now.append(start(step.groups));
              now = e.columns(plan.group, now,
                              [&](const Offset &column, ValueRange values) {
                                return emitColumns(step, row, Offset(),
                                                   number * plan.group + column,
                                                   values);
                              });
              ArrayRef<Value> found = now;
              llvm::append_range(next,
                                 found.take_front(step.reductions.size()));
              finish(step.groups, found.drop_front(step.reductions.size()),
                     row * count + number);
            }
            placeAll(step, row);
            e.nextPass();
          }
          storeResults(e, pass.groupStores, row * count + number);
          return next;
        });
    finish(reductions, partials, row);
    // From here on the values are available regardless of the group.
    for (const Step &step : pass.steps)
      placeAll(step, row);
    if (plan.readsBack)
      for (unsigned index : pass.groupStores)
        place(results[index], e.resultBuffer(index), Offset());
  }

  SmallVector<Value> start(ArrayRef<Reduction> reductions) {
    return llvm::map_to_vector(reductions, [&](Reduction reduction) {
      return reduction.start(emitter->builder(), emitter->wholeLanes());
    });
  }

  /// Defines the results of `reductions` at `offset`.
  void finish(ArrayRef<Reduction> reductions, ValueRange partials,
              const Offset &offset) {
    Emitter &e = *emitter;
    for (auto [reduction, partial] : llvm::zip(reductions, partials))
      reduction.define(e, reduction.finish(e, partial), offset);
  }

  void placeAll(const Step &step, const Offset &row) {
    Emitter &e = *emitter;
    if (plan.readsBack)
      for (unsigned index : step.stores)
        place(results[index], e.resultBuffer(index), Offset());
    for (Value value : step.kept)
      place(value, buffers[value],
            loops.getOffset(e.offsets(), row, Offset(), Offset()));
  }

  SmallVector<Value> emitColumns(const Step &step, const Offset &row,
                                 const Offset &outer, const Offset &column,
                                 ValueRange carried) {
    Emitter &e = *emitter;
    Offset offset = loops.getOffset(e.offsets(), row, outer, column);
    e.setPlaces(offset, row);
    SmallVector<Value> next;
    for (auto [reduction, partial] :
         llvm::zip(llvm::concat<const Reduction>(step.reductions, step.groups),
                   carried))
      next.push_back(reduction.accumulate(e, partial, offset));
    for (Reduction reduction : step.columns)
      addToColumns(reduction, offset, column);
    storeElement(e, step, offset, buffers, loops.getColumns(), column);
    return next;
  }

  void place(Value value, Value memory, const Offset &base) {
    if (isa<BlockArgument>(value))
      return;
    emitter->place(value, memory, base);
    placed.push_back(value);
  }

  const KernelSource source;
  const PassPlan plan;
  const Loops &loops = plan.loops;
  const SmallVector<Value> &results = plan.results;
  int64_t blocks = 1, blockSize = kBlock;
  DenseMap<Value, Value> buffers;
  SmallVector<Value> placed;
  std::optional<Emitter> emitter;
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitRows(const KernelSource &source) {
  FailureOr<PassPlan> plan = PassPlan::ofRows(source);
  if (failed(plan))
    return failure();
  if (plan->keepsRow)
    return emitKeptRows(source, std::move(*plan));
  if (plan->hasLongRows)
    return emitLongRows(source, std::move(*plan));
  return RowKernel(source, std::move(*plan)).emit();
}
