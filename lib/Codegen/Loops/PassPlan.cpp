//===- PassPlan.cpp - Passes of a kernel with reductions ------------------===//
//
// A reduction takes one pass over the elements of a work item; what depends on
// it takes another. Results are stored in the first pass that can compute them,
// and later passes read them back. Values that are expensive and needed again
// are kept in a buffer of the size of a work item; others are recomputed.
// Groups, and the steps over one of them, are planned in the same way.
//
// If the threads of a GPU can keep all values of a row that later passes need
// in registers, nothing is recomputed or read twice.
//
//===----------------------------------------------------------------------===//

#include "PassPlan.h"
#include "RowBlocks.h"
#include "binade/IR/Build.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

/// Bytes per work item on a thread's stack.
static constexpr int64_t kBufferBytes = 256 * 1024;
/// Bytes of shared memory per block of threads for work items, in addition to
/// the memory for exchanges.
static constexpr int64_t kSharedBytes = 32 * 1024;
/// Number of instructions from which an element is kept rather than recomputed.
static constexpr int64_t kExpensive = 12;
/// Elements of a row per thread that keeps them, and registers for the values
/// of these that later passes need. More would leave too few threads, or too
/// few registers for anything else.
static constexpr int64_t kKeptElements = 32, kKeptRegisters = 64;
/// Further registers for partial results of columns: with more threads per row,
/// some would have no vector in the last turn.
static constexpr int64_t kSumRegisters = 4;
/// Elements of the shortest vectors that replace longer ones, so that more
/// threads share a row.
static constexpr int64_t kMinLanes = 4;
/// Threads of a block that keeps rows, if it is small, and of the largest.
static constexpr int64_t kMinThreads = 128, kMaxThreads = 512;
/// Bits of a thread's registers that loads may fill at the same time, and the
/// most elements of an operand.
static constexpr int64_t kLoadedBits = 64 * 32, kElementsInFlight = 32;
/// Bits of loads if a thread can keep its vectors of a row: with values that
/// later passes need, and without, which leaves registers for more threads.
static constexpr int64_t kLoadedWithKept = 32 * 32, kLoadedAlone = 16 * 32;
/// Columns of a tile, unless a group is longer.
static constexpr int64_t kTileColumns = 64;
/// On a GPU, threads along a row of a tile with groups, unless one has more.
static constexpr int64_t kTileTeam = 16;

void mlir::binade::storeElement(Emitter &emitter, const Step &step,
                                const Offset &offset,
                                DenseMap<Value, Value> &buffers, int64_t count,
                                const Offset &own) {
  // All loads precede the stores, because a result may overwrite an operand.
  SmallVector<Value> kept = llvm::map_to_vector(step.kept, [&](Value value) {
    return emitter.pull(value, offset).value;
  });
  storeResults(emitter, step.stores, offset);
  for (auto [value, element] : llvm::zip(step.kept, kept)) {
    Value &buffer = buffers[value];
    if (!buffer)
      buffer = emitter.allocate(count, getTensor(value).getElementType());
    emitter.storeForTeam(buffer, element, own);
  }
}

SmallVector<Reduction> ElementPass::getReductions() const {
  SmallVector<Reduction> reductions;
  for (const Step &step : steps)
    llvm::append_range(reductions, step.reductions);
  return reductions;
}

void PassPlan::loadOperands(Emitter &emitter, const Step &step,
                            const Offset &offset, DenseSet<Value> &seen) const {
  SmallVector<Value> needed = llvm::map_to_vector(
      step.stores, [&](unsigned index) { return results[index]; });
  for (Reduction reduction : llvm::concat<const Reduction>(
           step.reductions, step.groups, step.columns))
    needed.push_back(reduction.getInput());
  loadElements(emitter, std::move(needed), offset, [&](Value value) {
    return isFull(value) && seen.insert(value).second;
  });
}

PassPlan::Per PassPlan::per(Value value) const {
  if (auto entry = known.find(value); entry != known.end())
    return entry->second;
  int64_t count = getTensor(value).getNumElements();
  return count == elements                        ? Per::Element
         : count == loops.getKept()               ? Per::Kept
         : group > 0 && count * group == elements ? Per::Group
                                                  : Per::Other;
}

namespace {
/// When a value is known: the pass, and the step in it.
struct Time {
  unsigned pass = 0, step = 0;
};

/// Computes a `PassPlan` for a kernel.
class Planner : public PassPlan {
public:
  explicit Planner(const KernelSource &source) : source(source) {
    results = source.getResults();
    shape = source.shape;
    readsBack = !shape;
  }

  FailureOr<PassPlan> run(bool plansTiles) {
    if (failed(plansTiles ? chooseTiles() : chooseRows()))
      return failure();
    planPasses();
    return PassPlan(std::move(*this));
  }

  /// Returns a plan in which the threads of a GPU keep rows in registers, or
  /// nothing if rows are too long.
  std::optional<PassPlan> runForKeptRows() {
    if (!shape || failed(chooseRows()) || !hasReductions ||
        loops.getReduced() != width)
      return std::nullopt;
    keepsRow = true;
    planPasses();
    if (!chooseThreadsOfKeptRows())
      return std::nullopt;
    return PassPlan(std::move(*this));
  }

  /// Returns a plan for rows of a GPU that are too long for this, or nothing if
  /// rows have groups, or a work item several rows.
  std::optional<PassPlan> runForLongRows() {
    if (!shape || failed(chooseRows()) || !hasReductions ||
        loops.getReduced() != width || group > 0)
      return std::nullopt;
    hasLongRows = true;
    bufferElements = 0;
    chooseThreadsOfLongRows();
    planPasses();
    return PassPlan(std::move(*this));
  }

private:
  LogicalResult chooseRows() {
    for (Value result : results)
      elements = std::max(elements, getTensor(result).getNumElements());
    for (Operation &op : source.function.front())
      if (auto reduction = Reduction::from(&op)) {
        if (reduction->leavesColumns()) {
          columnSums.push_back(*reduction);
        } else if (int64_t size = getGroup(*reduction)) {
          group = size;
          elements = reduction->getLoops().getElements();
        } else if (failed(addLoops(*reduction))) {
          return failure();
        }
      }
    if (hasReductions)
      elements = loops.getElements();
    int64_t columns = hasReductions ? loops.getColumns()
                                    : findColumns(source, results, elements);
    if (!hasReductions)
      loops = Loops::rows(elements / columns, columns);
    if (group > 0 && failed(chooseGroups()))
      return failure();
    width = loops.getColumns();
    // A buffer holds one row, not all rows of a channel.
    bufferElements = loops.getReduced() == width ? width : 0;
    if (shape)
      chooseThreads();
    return success();
  }

  /// Loads as many vectors at the same time as 64 registers can hold.
  void chooseVectorsInFlight() {
    func::FuncOp function = source.function;
    int64_t bits = countBits(
        llvm::make_filter_range(function.getArguments(), [&](Value x) {
          return getTensor(x).getNumElements() >= width;
        }));
    vectorsInFlight = std::clamp<int64_t>(
        kLoadedBits / std::max<int64_t>(1, bits * shape->lanes), 1,
        kElementsInFlight / shape->lanes);
  }

  void chooseThreads() {
    int64_t outer = hasReductions ? loops.getReduced() / width : 1;
    *shape =
        shape->fit(source.chooseLanes(std::gcd(width, group)), width, outer);
    maxBytes = kSharedBytes / shape->countItems();
    chooseVectorsInFlight();
  }

  /// A block has as few rows as possible, so that each has enough loads in
  /// flight.
  void chooseThreadsOfLongRows() {
    auto vectors = static_cast<uint64_t>(width / shape->lanes);
    shape->team = std::min<int64_t>(shape->threads, llvm::bit_floor(vectors));
    shape->down = 1;
    residentThreads = 1024;
    chooseVectorsInFlight();
  }

  /// Chooses as few threads per row as can keep it. A block is small if it has
  /// barriers, at which only the threads of a row should wait for each other,
  /// or if its threads need so many registers that few blocks fit.
  bool chooseThreadsOfKeptRows() {
    func::FuncOp function = source.function;
    int64_t loaded = countBits(llvm::make_filter_range(
        function.getArguments(), [&](Value x) { return isFull(x); }));
    int64_t kept = countBits(keptInRegisters),
            sums = 32 * static_cast<int64_t>(columnSums.size());
    int64_t lanes = shape->lanes, vectors = width / lanes;
    auto countVectors = [&] { return llvm::divideCeil(vectors, shape->team); };
    auto countRegisters = [&](int64_t bits) {
      return static_cast<int64_t>(lanes * countVectors() * bits / 32);
    };
    int64_t most = kKeptRegisters + (columnSums.empty() ? 0 : kSumRegisters);
    auto fits = [&] {
      return lanes * countVectors() <= kKeptElements &&
             countRegisters(std::max(kept, loaded) + sums) <= most;
    };
    while (!fits()) {
      if (2 * shape->team <= std::min(kMaxThreads, vectors)) {
        shape->team *= 2;
        continue;
      }
      // Only rows in registers can have column sums.
      if (columnSums.empty())
        return false;
      if (lanes <= kMinLanes)
        break;
      shape->lanes = lanes /= 2;
      vectors *= 2;
    }
    // Threads may then have 64, 80 or 128 registers.
    bool isLarge = countRegisters(kept + sums) > kKeptRegisters / 2;
    residentThreads = isLarge ? 512 : kept + sums > 0 ? 768 : 1024;
    vectorsInFlight = countVectors();
    if (!isLarge && loaded > 0)
      vectorsInFlight = std::clamp<int64_t>(
          (kept + sums > 0 ? kLoadedWithKept : kLoadedAlone) / (lanes * loaded),
          1, countVectors());
    if (isLarge || shape->team > kWarp)
      shape->threads = std::max<int64_t>(shape->team, kMinThreads);
    shape->down = columnSums.empty() ? 1 : shape->threads / shape->team;
    // A group has adjacent threads of one warp.
    return group == 0 || (llvm::isPowerOf2_64(group / lanes) &&
                          group / lanes <= std::min(shape->team, kWarp));
  }

  /// Returns the bits of registers for an element of each value.
  static int64_t countBits(const auto &values) {
    int64_t bits = 0;
    for (Value value : values)
      bits += std::max(16u, getTensor(value).getElementTypeBitWidth());
    return bits;
  }

  LogicalResult chooseTiles() {
    for (Operation &op : source.function.front())
      if (auto reduction = Reduction::from(&op)) {
        if (int64_t size = getGroupInRows(*reduction))
          group = size;
        else if (failed(addLoops(*reduction)))
          return failure();
      }
    elements = loops.getElements();
    int64_t columns = loops.getColumns();
    if (group > 0 && columns % group != 0)
      return source.function.emitOpError(
          "has groups that cross rows; expected the group size to divide the "
          "row size");
    if (shape)
      return chooseThreadsOfTiles();
    width = std::min(columns, kTileColumns);
    if (group > 0) {
      int64_t most = std::max<int64_t>(1, kTileColumns / group);
      while (columns / group % most != 0)
        --most;
      width = most * group;
    }
    bufferElements = isEven() ? loops.getReduced() * width : 0;
    return success();
  }

  /// Chooses as many columns as threads process at a time, in whole groups.
  LogicalResult chooseThreadsOfTiles() {
    int64_t columns = loops.getColumns();
    *shape = shape->fit(source.chooseLanes(std::gcd(columns, group)), columns,
                        loops.getReduced());
    width = shape->team * shape->lanes;
    if (group == 0)
      return success();
    int64_t threads = shape->countThreadsOfGroup(group);
    if (threads > shape->threads)
      return source.function.emitError("kernel '@")
             << source.symbol << "' reduces columns, and groups of " << group
             << " adjacent elements; expected groups of at most "
             << shape->threads * shape->lanes;
    // In narrow tiles a thread has few rows, whose latencies add up.
    shape->team = std::max(threads, std::min(shape->team, kTileTeam));
    int64_t columnsAtATime = shape->team * shape->lanes;
    shape->down =
        shape->fit(shape->lanes, columnsAtATime, loops.getReduced()).down;
    width = shape->team / threads * group;
    return success();
  }

  LogicalResult addLoops(Reduction reduction) {
    Loops needed = reduction.getLoops();
    if (!hasReductions)
      loops = needed;
    else if (!(needed == loops))
      return reduction.op->emitOpError(
          "reduces over other axes than another "
          "reduction of the same kernel; move it to "
          "a kernel of its own");
    hasReductions = true;
    return success();
  }

  static int64_t getGroup(Reduction reduction) {
    return cast<KernelOpInterface>(reduction.op).getReduced().group;
  }
  static int64_t getGroupInRows(Reduction reduction) {
    return reduction.leavesColumns() ? 0 : getGroup(reduction);
  }

  /// Chooses the rows. Groups are parts of rows, or rows themselves if nothing
  /// else needs longer rows.
  LogicalResult chooseGroups() {
    int64_t columns = loops.getColumns();
    if (!hasReductions && (columns % group != 0 || columns > kLongRow))
      loops = Loops::rows(elements / group, group);
    hasReductions = true;
    if (loops.getColumns() != loops.getReduced() ||
        loops.getColumns() % group != 0)
      return source.function.emitOpError(
          "has groups that cross rows; expected the group size to divide the "
          "row size");
    if (loops.getColumns() == group)
      group = 0;
    return success();
  }

  bool isInGroups(Reduction reduction) const {
    return group > 0 && getGroupInRows(reduction) > 0;
  }

  /// Returns what the results of `op` have one element for, from the operands
  /// if these determine it. The number of elements does not if as many groups
  /// are in rows as in columns, so operands that a reduction determines come
  /// first.
  Per findPer(Operation *op) const {
    int64_t count = getTensor(op->getResult(0)).getNumElements();
    if (count == elements)
      return Per::Element;
    if (auto reduction = Reduction::from(op))
      return isInGroups(*reduction) ? Per::Group : Per::Kept;
    std::optional<Per> found;
    for (Value operand : op->getOperands()) {
      auto entry = known.find(operand);
      if (entry == known.end() || entry->second == Per::Element ||
          getTensor(operand).getNumElements() != count)
        continue;
      if (isReduced.contains(operand))
        return entry->second;
      found = found.value_or(entry->second);
    }
    return found ? *found : per(op->getResult(0));
  }

  /// Whether `op` is a reduction, or computes an element from those of one.
  bool computesReduced(Operation *op) const {
    int64_t count = getTensor(op->getResult(0)).getNumElements();
    return Reduction::from(op) || llvm::any_of(op->getOperands(), [&](Value x) {
             return isReduced.contains(x) &&
                    getTensor(x).getNumElements() == count;
           });
  }

  Step &getStep(Time time) { return passes[time.pass].steps[time.step]; }

  void planPasses() {
    unsigned lastPass = 0, lastStep = 0;
    SmallVector<Reduction> reductions;
    for (Operation &op : source.function.front().without_terminator()) {
      if (isOfColumnSums(&op)) {
        for (Value result : op.getResults())
          known[result] = Per::Other;
        ofColumnSums.insert_range(op.getResults());
        continue;
      }
      Time time;
      for (Value operand : op.getOperands()) {
        Time known = times.lookup(operand);
        time.pass = std::max(time.pass, known.pass);
        time.step = std::max(time.step, known.step);
      }
      if (auto reduction = Reduction::from(&op)) {
        if (isInGroups(*reduction)) {
          ++time.step;
        } else if (auto online = findOnlineSum(*reduction)) {
          reductions.push_back(*reduction);
          time = times.lookup(online->maximum.getResult());
        } else {
          reductions.push_back(*reduction);
          time = {time.pass + 1, 0};
        }
      }
      Per each = findPer(&op);
      for (Value result : op.getResults()) {
        times[result] = time;
        known[result] = each;
      }
      if (computesReduced(&op))
        isReduced.insert_range(op.getResults());
      lastPass = std::max(lastPass, time.pass);
      lastStep = std::max(lastStep, time.step);
    }
    passes.resize(lastPass + 1);
    for (ElementPass &pass : passes)
      pass.steps.resize(lastStep + 1);
    for (Reduction reduction : reductions)
      getStep(times.lookup(getElements(reduction)))
          .reductions.push_back(reduction);
    for (Reduction reduction : columnSums)
      getStep(times.lookup(reduction.getInput())).columns.push_back(reduction);
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
          visit(getElements(reduction), {pass, step});
        for (Reduction reduction : passes[pass].steps[step].columns)
          visit(reduction.getInput(), {pass, step});
        for (unsigned index : passes[pass].steps[step].stores)
          visit(results[index], {pass, step});
      }
      for (unsigned index : passes[pass].groupStores)
        visit(results[index], {pass, lastStep});
    }
  }

  bool isOfColumnSums(Operation *op) const {
    return llvm::any_of(columnSums,
                        [&](Reduction sum) { return sum.op == op; }) ||
           llvm::any_of(op->getOperands(), [&](Value operand) {
             return ofColumnSums.contains(operand);
           });
  }

  /// Returns the value whose elements the pass of `reduction` needs.
  Value getElements(Reduction reduction) const {
    std::optional<OnlineSum> online = findOnlineSum(reduction);
    return online ? online->maximum.getInput() : reduction.getInput();
  }

  /// Follows the definition of a value that is needed at `now`, and keeps
  /// values that an earlier step computed and that are too expensive to
  /// recompute.
  void visit(Value value, Time now) {
    Operation *op = value.getDefiningOp();
    if (!(isFull(value) || isPerGroup(value)) ||
        (keepsRow && isInRegisters(value, now)) ||
        !getStep(now).seen.insert(value).second || !op)
      return;
    auto reduction = Reduction::from(op);
    if (reduction && isInGroups(*reduction)) {
      // The reduction is repeated in each pass that needs it.
      Time then = {now.pass, times.lookup(reduction->getInput()).step};
      SmallVector<Reduction> &groups = getStep(then).groups;
      if (llvm::none_of(groups, [&](Reduction r) { return r.op == op; }))
        groups.push_back(*reduction);
      return visit(reduction->getInput(), then);
    }
    // Elements that an op moves come from other places, and are recomputed.
    if (isFull(value) && isMovement(op) && !isView(op))
      return;
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

  /// Whether a step before `now` leaves the value in registers.
  bool isInRegisters(Value value, Time now) {
    for (unsigned pass = 0; pass <= now.pass; ++pass)
      for (unsigned step = 0; step < passes[pass].steps.size(); ++step) {
        bool isEarlier = pass < now.pass || step < now.step;
        if (!isEarlier || !passes[pass].steps[step].seen.contains(value))
          continue;
        if (pass < now.pass && isFull(value) && !isPerRow(value))
          keptInRegisters.insert(value);
        return true;
      }
    return false;
  }

  /// Whether all elements of a row are equal, which takes one register.
  bool isPerRow(Value value) const {
    Operation *op = value.getDefiningOp();
    return op && op->getNumOperands() == 1 && isPerKept(op->getOperand(0));
  }

  /// Whether memory that the step `earlier` writes contains the value.
  bool isKept(Value value, Step &earlier) {
    bool isStored = llvm::any_of(earlier.stores, [&](unsigned index) {
      return results[index] == value;
    });
    if (llvm::is_contained(earlier.kept, value) || (readsBack && isStored))
      return true;
    if (!earlier.seen.contains(value) || getCost(value) < kExpensive ||
        !reserve(value))
      return false;
    earlier.kept.push_back(value);
    return true;
  }

  bool reserve(Value value) {
    if (bufferElements == 0 || keepsRow)
      return false;
    Type storage = getStorageType(getTensor(value).getElementType());
    int64_t bytes =
        llvm::divideCeil(storage.getIntOrFloatBitWidth(), 8) * bufferElements;
    if (bufferBytes + bytes > maxBytes)
      return false;
    bufferBytes += bytes;
    return true;
  }

  /// Estimates the number of instructions per element, with operands in memory.
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
    // Counts what the op itself emits.
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
  int64_t bufferElements = 0; ///< Per work item; 0: nothing is kept.
  int64_t bufferBytes = 0, maxBytes = kBufferBytes;
  DenseSet<Value> keptInRegisters; ///< Values that more than one pass needs.
  DenseMap<Value, Time> times;
  DenseMap<Value, int64_t> costs;
  DenseSet<Value> isReduced; ///< Results of reductions, and of ops on these.
};
} // namespace

FailureOr<PassPlan> PassPlan::ofRows(const KernelSource &source) {
  if (std::optional<PassPlan> plan = Planner(source).runForKeptRows())
    return std::move(*plan);
  if (std::optional<PassPlan> plan = Planner(source).runForLongRows())
    return std::move(*plan);
  return Planner(source).run(/*plansTiles=*/false);
}

FailureOr<PassPlan> PassPlan::ofTiles(const KernelSource &source) {
  return Planner(source).run(/*plansTiles=*/true);
}
