//===- RowPlan.cpp - what a kernel over rows does when --------------------===//
//
// A reduction is one pass over the elements of an item; what depends on it
// needs another pass. Results are stored in the first pass that can, and read
// back by later ones; what is expensive and needed again is kept in a buffer as
// long as a row, the rest is computed again. The same holds of groups and the
// steps over one of them.
//
//===----------------------------------------------------------------------===//

#include "RowPlan.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

/// What a thread's stack has for rows.
static constexpr int64_t kBufferBytes = 256 * 1024;
/// Instructions from which an element is worth keeping.
static constexpr int64_t kExpensive = 12;

namespace {
/// When a value is known: in which pass, and in which step of it.
struct Time {
  unsigned pass = 0, step = 0;
};

class Planner : public RowPlan {
public:
  explicit Planner(const KernelSource &source) : source(source) {
    results = source.getResults();
  }

  LogicalResult run() {
    if (failed(chooseLoops()))
      return failure();
    planPasses();
    return success();
  }

private:
  LogicalResult chooseLoops() {
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
    int64_t columns = hasReductions ? loops.getColumns()
                                    : findColumns(source, results, elements);
    if (!hasReductions)
      loops = Loops::rows(elements / columns, columns);
    return group > 0 ? chooseGroups() : success();
  }

  static int64_t getGroup(Reduction reduction) {
    return cast<KernelOpInterface>(reduction.op).getReduced().group;
  }

  /// Groups in rows, or groups as rows where nothing else needs longer ones.
  LogicalResult chooseGroups() {
    int64_t columns = loops.getColumns();
    if (!hasReductions && (columns % group != 0 || columns > kLongRow))
      loops = Loops::rows(elements / group, group);
    hasReductions = true;
    if (loops.getColumns() != loops.getReduced() ||
        loops.getColumns() % group != 0)
      return source.function.emitOpError("has groups that lie across rows");
    if (loops.getColumns() == group)
      group = 0;
    return success();
  }

  bool isInGroups(Reduction reduction) const {
    return group > 0 && getGroup(reduction) > 0;
  }

  RowStep &getStep(Time time) { return passes[time.pass].steps[time.step]; }

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
    for (RowPass &pass : passes)
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
  bool isKept(Value value, RowStep &earlier) {
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
    int64_t bytes = llvm::divideCeil(storage.getIntOrFloatBitWidth(), 8) *
                    loops.getColumns();
    if (bufferBytes + bytes > kBufferBytes)
      return false;
    bufferBytes += bytes;
    return true;
  }

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

  KernelSource source;
  int64_t bufferBytes = 0;
  DenseMap<Value, Time> times;
  DenseMap<Value, int64_t> costs;
};
} // namespace

FailureOr<RowPlan> RowPlan::of(const KernelSource &source) {
  Planner planner(source);
  if (failed(planner.run()))
    return failure();
  return RowPlan(std::move(planner));
}
