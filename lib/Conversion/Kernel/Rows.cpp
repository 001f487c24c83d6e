//===- Rows.cpp - elementwise kernels and reductions over rows ------------===//
//
// An item is one entry of the kept axes: a row, or for statistics of a channel
// all its rows. A reduction is one pass over the item's elements; what depends
// on it needs another pass. Results are stored in the first pass that can, and
// read back by later ones; what is expensive and needed again is kept in a
// buffer as long as a row, the rest is computed again.
//
// Where groups of neighbours are reduced too, a pass goes from group to group,
// and over each in steps: what depends on a group's maximum needs another step.
//
//===----------------------------------------------------------------------===//

#include "Reduction.h"
#include "Schedules.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

/// Elements of a block of a long row without reductions, and the length from
/// which a row is long.
static constexpr int64_t kBlock = 4096, kLongRow = 2 * kBlock;
/// What a thread's stack has for rows.
static constexpr int64_t kBufferBytes = 256 * 1024;
/// Instructions from which an element is worth keeping.
static constexpr int64_t kExpensive = 12;

namespace {
class RowKernel {
public:
  explicit RowKernel(const KernelSource &source)
      : source(source), results(source.getResults()) {}

  FailureOr<KernelInfo> emit() {
    if (failed(collectReductions()))
      return failure();
    if (!hasReductions)
      loops = Loops::rows(elements / columns, columns);
    planPasses();

    bool isLong = !hasReductions && columns > kLongRow;
    blocks = isLong ? llvm::divideCeil(columns, kBlock) : 1;
    KernelInfo info;
    info.symbol = source.symbol;
    info.extent = loops.getKept() * blocks;
    int64_t perItem = isLong ? kBlock : loops.getReduced();
    info.grain =
        std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, perItem));
    info.hasStatus = source.hasIndices();
    info.workspaceBytes = info.hasStatus ? kStatusBytes : 0;

    emitter.emplace(source.function, source.formulas, source.into,
                    source.symbol + ".items",
                    TypeRange(source.getBuffers(info.workspaceBytes)), 2);
    emitter->loop(emitter->argument(0), emitter->argument(1), 1, {},
                  [&](Value item, ValueRange) {
                    emitItem(item, info.extent);
                    return SmallVector<Value>();
                  });
    setInPlace(*emitter, info);
    if (failed(emitter->status()))
      return failure();
    return info;
  }

private:
  //===--------------------------------------------------------------------===//
  // Which loops
  //===--------------------------------------------------------------------===//

  LogicalResult collectReductions() {
    for (Value result : results)
      elements = std::max(elements, getTensor(result).getNumElements());
    for (Operation &op : source.function.front())
      if (auto reduction = Reduction::from(&op)) {
        if (int64_t size = getGroup(*reduction)) {
          group = size;
          elements = reduction->getLoops().getElements();
          continue;
        }
        Loops needed = reduction->getLoops();
        if (!hasReductions)
          loops = needed;
        else if (!(needed == loops))
          return op.emitOpError("reduces over other axes than another of the "
                                "same kernel: they need kernels of their own");
        hasReductions = true;
      }
    if (hasReductions)
      elements = loops.getElements();
    else
      columns = findColumns(source, results, elements);
    if (group > 0)
      return chooseGroups();
    return success();
  }

  static int64_t getGroup(Reduction reduction) {
    return cast<KernelOpInterface>(reduction.op).getReduced().group;
  }

  /// Groups in rows, or groups as rows where nothing else needs longer ones.
  LogicalResult chooseGroups() {
    Loops groups = Loops::rows(elements / group, group);
    bool isLong = columns % group != 0 || columns > kLongRow;
    if (!hasReductions)
      loops = isLong ? groups : Loops::rows(elements / columns, columns);
    hasReductions = true;
    if (loops == groups)
      group = 0;
    else if (loops.getColumns() != loops.getReduced() ||
             loops.getColumns() % group != 0)
      return source.function.emitOpError("has groups that lie across rows");
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Which pass does what
  //===--------------------------------------------------------------------===//

  /// When a value is known: in which pass, and in which step of it.
  struct Time {
    unsigned pass = 0, step = 0;
  };

  struct Step {
    SmallVector<Reduction> reductions, groups;
    SmallVector<unsigned> stores; ///< Indices of results.
    SmallVector<Value> kept;      ///< Values that later steps read.
    llvm::DenseSet<Value> seen;

    bool isEmpty() const {
      return reductions.empty() && groups.empty() && stores.empty();
    }
  };

  struct Pass {
    std::vector<Step> steps;
    SmallVector<unsigned> groupStores; ///< Results with an element per group.

    bool hasGroups() const {
      return llvm::any_of(
          steps, [](const Step &step) { return !step.groups.empty(); });
    }
  };

  bool isFull(Value value) const {
    return getTensor(value).getNumElements() == elements;
  }
  bool isPerRow(Value value) const {
    return !isFull(value) &&
           getTensor(value).getNumElements() == loops.getKept();
  }
  bool isPerGroup(Value value) const {
    return group > 0 && getTensor(value).getNumElements() * group == elements;
  }
  bool isInGroups(Reduction reduction) const {
    return group > 0 && getGroup(reduction) > 0;
  }

  Step &getStep(Time time) { return passes[time.pass].steps[time.step]; }

  void planPasses() {
    unsigned lastPass = 0, lastStep = 0;
    SmallVector<Reduction> reductions;
    for (Operation &op : source.function.front().without_terminator()) {
      Time time;
      for (Value operand : op.getOperands()) {
        Time known = times.lookup(operand);
        time.pass = std::max(time.pass, known.pass);
        time.step = std::max(time.step, known.step);
      }
      if (auto reduction = Reduction::from(&op)) {
        if (isInGroups(*reduction)) {
          ++time.step;
        } else {
          reductions.push_back(*reduction);
          time = {time.pass + 1, 0};
        }
      }
      for (Value result : op.getResults())
        times[result] = time;
      lastPass = std::max(lastPass, time.pass);
      lastStep = std::max(lastStep, time.step);
    }
    passes.resize(lastPass + 1);
    for (Pass &pass : passes)
      pass.steps.resize(lastStep + 1);
    for (Reduction reduction : reductions)
      getStep(times.lookup(reduction.getInput()))
          .reductions.push_back(reduction);
    for (auto [index, result] : llvm::enumerate(results)) {
      Time time = times.lookup(result);
      if (isFull(result))
        getStep(time).stores.push_back(index);
      else if (isPerGroup(result))
        passes[time.pass].groupStores.push_back(index);
    }
    for (unsigned pass = 0; pass < passes.size(); ++pass) {
      for (unsigned step = 0; step <= lastStep; ++step) {
        for (Reduction reduction : passes[pass].steps[step].reductions)
          visit(reduction.getInput(), {pass, step});
        for (unsigned index : passes[pass].steps[step].stores)
          visit(results[index], {pass, step});
      }
      for (unsigned index : passes[pass].groupStores)
        visit(results[index], {pass, lastStep});
    }
  }

  /// Follows a value that is needed at `now`; keeps what an earlier step had
  /// and is too expensive to compute again.
  void visit(Value value, Time now) {
    Operation *op = value.getDefiningOp();
    if (!op || !(isFull(value) || isPerGroup(value)) ||
        !getStep(now).seen.insert(value).second)
      return;
    auto reduction = Reduction::from(op);
    if (reduction && isInGroups(*reduction)) {
      // Of each pass that needs it.
      Time then = {now.pass, times.lookup(reduction->getInput()).step};
      SmallVector<Reduction> &groups = getStep(then).groups;
      if (llvm::none_of(groups, [&](Reduction r) { return r.op == op; }))
        groups.push_back(*reduction);
      return visit(reduction->getInput(), then);
    }
    if (isFull(value))
      for (unsigned pass = 0; pass <= now.pass; ++pass)
        for (unsigned step = 0; step < passes[pass].steps.size(); ++step) {
          bool isEarlier = pass < now.pass || step < now.step;
          if (isEarlier && isKept(value, passes[pass].steps[step]))
            return;
        }
    for (Value operand : op->getOperands())
      visit(operand, now);
  }

  /// Whether the memory that an `earlier` step leaves has the value.
  bool isKept(Value value, Step &earlier) {
    if (llvm::is_contained(earlier.kept, value) ||
        llvm::any_of(earlier.stores,
                     [&](unsigned index) { return results[index] == value; }))
      return true;
    if (!earlier.seen.contains(value) || getCost(value) < kExpensive ||
        !reserve(value))
      return false;
    earlier.kept.push_back(value);
    return true;
  }

  bool reserve(Value value) {
    // A buffer holds one row, not all rows of a channel.
    if (loops.getReduced() != loops.getColumns())
      return false;
    Type storage = getStorageType(getTensor(value).getElementType());
    int64_t bytes =
        llvm::divideCeil(storage.getIntOrFloatBitWidth(), 8) * columnsOfItem();
    if (bufferBytes + bytes > kBufferBytes)
      return false;
    bufferBytes += bytes;
    return true;
  }

  int64_t columnsOfItem() const { return loops.getColumns(); }

  /// About how many instructions an element takes, from memory.
  int64_t getCost(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !isFull(value))
      return 0;
    auto [entry, isNew] = costs.try_emplace(value, 0);
    if (!isNew)
      return entry->second;
    int64_t cost = getOwnCost(op);
    for (Value operand : op->getOperands())
      cost += getCost(operand);
    return costs[value] = cost;
  }

  static int64_t getOwnCost(Operation *op) {
    auto elementwise = dyn_cast<ElementwiseOpInterface>(op);
    if (!elementwise)
      return isa<EncodeOp, DequantizeOp>(op)      ? kExpensive
             : isa<GatherOp, PadOp, ConcatOp>(op) ? 2
                                                  : 0;
    // Asks the op itself.
    ImplicitLocOpBuilder b(op->getLoc(), op->getContext());
    Block block;
    b.setInsertionPointToStart(&block);
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(block.addArgument(
          getComputeType(getTensor(operand).getElementType()), op->getLoc()));
    elementwise.buildScalar(b, operands);
    int64_t cost = 0;
    for (Operation &part : block) {
      bool isFunction = isa<math::MathDialect>(part.getDialect()) &&
                        !isa<math::AbsFOp, math::FmaOp, math::CopySignOp>(part);
      cost += isFunction ? 20 : isa<arith::DivFOp>(part) ? 8 : 1;
    }
    return cost;
  }

  //===--------------------------------------------------------------------===//
  // Code
  //===--------------------------------------------------------------------===//

  void emitItem(Value item, int64_t extent) {
    Emitter &e = *emitter;
    Offset counter = e.offsets().counter(item, extent, e.depth());
    Offset row = counter, block;
    if (blocks > 1)
      std::tie(row, block) = e.offsets().divide(counter, blocks).asPair();
    e.setPlaces(Offset(), row);
    for (Pass &pass : passes)
      emitPass(pass, row, block);
    SmallVector<unsigned> others;
    for (auto [index, result] : llvm::enumerate(results)) {
      if (isFull(result) || isPerGroup(result))
        continue;
      if (isPerRow(result) && blocks == 1)
        e.storeResult(index, e.pull(result, row).value, row);
      else
        others.push_back(index);
    }
    emitOthers(e, others, counter);
    for (Value value : placed)
      e.unplace(value);
    placed.clear();
  }

  void emitPass(Pass &pass, const Offset &row, const Offset &block) {
    Emitter &e = *emitter;
    if (pass.hasGroups())
      return emitGroups(pass, row);
    for (Step &step : pass.steps) {
      if (!step.isEmpty())
        emitStep(step, row, block);
      e.nextPass();
    }
  }

  /// A step over all columns of a row or of a block of it.
  void emitStep(Step &step, const Offset &row, const Offset &block) {
    Emitter &e = *emitter;
    auto columns = [&](const Offset &outer, ValueRange carried) {
      auto body = [&](const Offset &column, ValueRange now) {
        return emitColumns(step, row, outer, column, now);
      };
      if (blocks == 1)
        return e.columns(loops.getColumns(), carried, body);
      Value begin = e.number(block * kBlock);
      return e.columnBlock(begin, kBlock, loops.getColumns(), carried, body);
    };
    SmallVector<Value> partials = start(step.reductions);
    int64_t outer = loops.getReduced() / loops.getColumns();
    if (!hasReductions || outer == 1)
      partials = columns(Offset(), partials);
    else
      partials = e.loop(e.index(0), e.index(outer), 1, partials,
                        [&](Value entry, ValueRange carried) {
                          Offset counter =
                              e.offsets().counter(entry, outer, e.depth());
                          return columns(counter, carried);
                        });
    finish(step.reductions, partials, row);
    placeAll(step, row);
  }

  /// All steps over one group after the other.
  void emitGroups(Pass &pass, const Offset &row) {
    Emitter &e = *emitter;
    SmallVector<Reduction> reductions;
    for (Step &step : pass.steps)
      llvm::append_range(reductions, step.reductions);
    int64_t count = loops.getColumns() / group;
    SmallVector<Value> partials = e.loop(
        e.index(0), e.index(count), 1, start(reductions),
        [&](Value entry, ValueRange carried) {
          Offset number = e.offsets().counter(entry, count, e.depth());
          SmallVector<Value> next;
          for (Step &step : pass.steps) {
            if (!step.isEmpty()) {
              SmallVector<Value> now(
                  carried.slice(next.size(), step.reductions.size()));
              now.append(start(step.groups));
              now = e.columns(
                  group, now, [&](const Offset &column, ValueRange values) {
                    return emitColumns(step, row, Offset(),
                                       number * group + column, values);
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
          for (unsigned index : pass.groupStores) {
            Offset offset = row * count + number;
            e.storeResult(index, e.pull(results[index], offset).value, offset);
          }
          return next;
        });
    finish(reductions, partials, row);
    for (unsigned index : pass.groupStores)
      place(results[index], e.resultBuffer(index), Offset());
  }

  SmallVector<Value> start(ArrayRef<Reduction> reductions) {
    return llvm::map_to_vector(reductions, [&](Reduction reduction) {
      return reduction.start(emitter->builder());
    });
  }

  /// Says what has become of `reductions`, at `offset` of their results.
  void finish(ArrayRef<Reduction> reductions, ValueRange partials,
              const Offset &offset) {
    Emitter &e = *emitter;
    for (auto [reduction, partial] : llvm::zip(reductions, partials)) {
      Value total = reduction.finish(e.builder(), partial);
      Type element = getTensor(reduction.getResult()).getElementType();
      e.define(reduction.getResult(), offset, e.narrow(total, element));
    }
  }

  void placeAll(Step &step, const Offset &row) {
    Emitter &e = *emitter;
    for (unsigned index : step.stores)
      place(results[index], e.resultBuffer(index), Offset());
    for (Value value : step.kept)
      place(value, buffers[value],
            loops.getOffset(e.offsets(), row, Offset(), Offset()));
  }

  SmallVector<Value> emitColumns(Step &step, const Offset &row,
                                 const Offset &outer, const Offset &column,
                                 ValueRange carried) {
    Emitter &e = *emitter;
    Offset offset = loops.getOffset(e.offsets(), row, outer, column);
    e.setPlaces(offset, row);
    SmallVector<Value> next;
    for (auto [reduction, partial] : llvm::zip(
             llvm::concat<Reduction>(step.reductions, step.groups), carried))
      next.push_back(reduction.accumulate(
          e.builder(), partial, e.pullLanes(reduction.getInput(), offset)));
    SmallVector<Value> stored, kept;
    for (unsigned index : step.stores)
      stored.push_back(e.pull(results[index], offset).value);
    for (Value value : step.kept)
      kept.push_back(e.pull(value, offset).value);
    // Loads before stores: a result may overwrite an operand.
    for (auto [index, value] : llvm::zip(step.stores, stored))
      e.storeResult(index, value, offset);
    for (auto [value, element] : llvm::zip(step.kept, kept)) {
      Value &buffer = buffers[value];
      if (!buffer)
        buffer =
            e.allocate(loops.getColumns(), getTensor(value).getElementType());
      e.store(buffer, element, column);
    }
    return next;
  }

  void place(Value value, Value memory, const Offset &base) {
    if (isa<BlockArgument>(value))
      return;
    emitter->place(value, memory, base);
    placed.push_back(value);
  }

  KernelSource source;
  SmallVector<Value> results;
  Loops loops;
  bool hasReductions = false;
  int64_t group = 0; ///< Elements of one; 0 where there are none in rows.
  int64_t elements = 0, columns = 1, blocks = 1, bufferBytes = 0;
  std::vector<Pass> passes;
  DenseMap<Value, Time> times;
  DenseMap<Value, int64_t> costs;
  DenseMap<Value, Value> buffers;
  SmallVector<Value> placed;
  std::optional<Emitter> emitter;
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitRows(const KernelSource &source) {
  return RowKernel(source).emit();
}
