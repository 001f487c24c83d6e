//===- Rows.cpp - elementwise kernels and reductions over rows ------------===//
//
// An item is one entry of the kept axes: a row, or for statistics of a channel
// all its rows. A reduction is one pass over the item's elements; what depends
// on it needs another pass. Results are stored in the first pass that can, and
// read back by later ones; what is expensive and needed again is kept in a
// buffer as long as a row, the rest is computed again.
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
    if (reductions.empty())
      loops = Loops::rows(elements / columns, columns);
    planPasses();

    bool isLong = reductions.empty() && columns > kLongRow;
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
        Loops needed = reduction->getLoops();
        if (reductions.empty())
          loops = needed;
        else if (!(needed == loops))
          return op.emitOpError("reduces over other axes than ")
                 << reductions.front().op->getName()
                 << " of the same kernel: they need kernels of their own";
        reductions.push_back(*reduction);
      }
    if (!reductions.empty())
      elements = loops.getElements();
    else
      columns = findColumns(source, results, elements);
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Which pass does what
  //===--------------------------------------------------------------------===//

  struct Pass {
    SmallVector<Reduction> reductions;
    SmallVector<unsigned> stores; ///< Indices of results.
    SmallVector<Value> kept;      ///< Values that later passes read.
    llvm::DenseSet<Value> seen;
  };

  bool isFull(Value value) const {
    return getTensor(value).getNumElements() == elements;
  }
  bool isPerRow(Value value) const {
    return !isFull(value) &&
           getTensor(value).getNumElements() == loops.getKept();
  }

  void planPasses() {
    DenseMap<Value, unsigned> levels;
    unsigned last = 0;
    for (Operation &op : source.function.front().without_terminator()) {
      unsigned level = 0;
      for (Value operand : op.getOperands())
        level = std::max(level, levels.lookup(operand));
      if (auto reduction = Reduction::from(&op)) {
        if (passes.size() <= level)
          passes.resize(level + 1);
        passes[level].reductions.push_back(*reduction);
        ++level;
      }
      for (Value result : op.getResults())
        levels[result] = level;
      last = std::max(last, level);
    }
    if (passes.size() <= last)
      passes.resize(last + 1);
    for (auto [index, result] : llvm::enumerate(results))
      if (isFull(result)) {
        passes[levels.lookup(result)].stores.push_back(index);
      }
    for (unsigned pass = 0; pass < passes.size(); ++pass) {
      for (Reduction reduction : passes[pass].reductions)
        visit(reduction.getInput(), pass);
      for (unsigned index : passes[pass].stores)
        visit(results[index], pass);
    }
  }

  /// Follows a value that `pass` needs; keeps what an earlier pass had and is
  /// too expensive to compute again.
  void visit(Value value, unsigned pass) {
    Operation *op = value.getDefiningOp();
    if (!op || !isFull(value) || !passes[pass].seen.insert(value).second)
      return;
    for (unsigned earlier = 0; earlier < pass; ++earlier) {
      if (llvm::is_contained(passes[earlier].kept, value) ||
          llvm::any_of(passes[earlier].stores,
                       [&](unsigned index) { return results[index] == value; }))
        return;
      if (passes[earlier].seen.contains(value) &&
          getCost(value) >= kExpensive && reserve(value)) {
        passes[earlier].kept.push_back(value);
        return;
      }
    }
    for (Value operand : op->getOperands())
      visit(operand, pass);
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
    for (auto &pass : passes) {
      emitPass(pass, row, block);
      e.nextPass();
    }
    SmallVector<unsigned> others;
    for (auto [index, result] : llvm::enumerate(results)) {
      if (isFull(result))
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
    if (pass.reductions.empty() && pass.stores.empty())
      return;
    SmallVector<Value> partials;
    for (Reduction reduction : pass.reductions)
      partials.push_back(reduction.start(e.builder()));

    auto columns = [&](const Offset &outer, ValueRange carried) {
      auto body = [&](const Offset &column, ValueRange now) {
        return emitColumns(pass, row, outer, column, now);
      };
      if (blocks == 1)
        return e.columns(loops.getColumns(), carried, body);
      Value begin = e.number(block * kBlock);
      return e.columnBlock(begin, kBlock, loops.getColumns(), carried, body);
    };
    int64_t outer = loops.getReduced() / loops.getColumns();
    if (reductions.empty() || outer == 1)
      partials = columns(Offset(), partials);
    else
      partials = e.loop(e.index(0), e.index(outer), 1, partials,
                        [&](Value entry, ValueRange carried) {
                          Offset counter =
                              e.offsets().counter(entry, outer, e.depth());
                          return columns(counter, carried);
                        });

    for (auto [reduction, partial] : llvm::zip(pass.reductions, partials)) {
      Value total = reduction.finish(e.builder(), partial);
      Type element = getTensor(reduction.getResult()).getElementType();
      e.define(reduction.getResult(), row, e.narrow(total, element));
    }
    for (unsigned index : pass.stores)
      place(results[index], e.resultBuffer(index), Offset());
    for (Value value : pass.kept)
      place(value, buffers[value],
            loops.getOffset(e.offsets(), row, Offset(), Offset()));
  }

  SmallVector<Value> emitColumns(Pass &pass, const Offset &row,
                                 const Offset &outer, const Offset &column,
                                 ValueRange carried) {
    Emitter &e = *emitter;
    Offset offset = loops.getOffset(e.offsets(), row, outer, column);
    e.setPlaces(offset, row);
    SmallVector<Value> next;
    for (auto [reduction, partial] : llvm::zip(pass.reductions, carried))
      next.push_back(reduction.accumulate(
          e.builder(), partial, e.pullLanes(reduction.getInput(), offset)));
    SmallVector<Value> stored, kept;
    for (unsigned index : pass.stores)
      stored.push_back(e.pull(results[index], offset).value);
    for (Value value : pass.kept)
      kept.push_back(e.pull(value, offset).value);
    // Loads before stores: a result may overwrite an operand.
    for (auto [index, value] : llvm::zip(pass.stores, stored))
      e.storeResult(index, value, offset);
    for (auto [value, element] : llvm::zip(pass.kept, kept)) {
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
  SmallVector<Reduction> reductions;
  Loops loops;
  int64_t elements = 0, columns = 1, blocks = 1, bufferBytes = 0;
  std::vector<Pass> passes;
  DenseMap<Value, int64_t> costs;
  DenseMap<Value, Value> buffers;
  SmallVector<Value> placed;
  std::optional<Emitter> emitter;
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitRows(const KernelSource &source) {
  return RowKernel(source).emit();
}
