//===- Grouping.cpp - Fusion groups ---------------------------------------===//
//
// The grouping visits ops in program order. An op joins the group of a producer
// if the loops agree and no other input of the op can depend on this group, so
// that no cycle can form: no group depends on it yet, or all other inputs have
// a lower level. A group's level exceeds those of the groups that it reads.
// Groups with equal loops that one op reads are merged, unless one depends on
// the other; so are full reductions with a group that reads the same values
// and, on a GPU, groups that read the same tensors. Finally, transposed copies
// of quantized operands join the group that writes the operand on a GPU.
//
//===----------------------------------------------------------------------===//

#include "Grouping.h"
#include "SiblingGroups.h"
#include "binade/IR/Build.h"
#include "binade/IR/Movement.h"
#include "binade/IR/ReadsNeighbors.h"
#include "binade/IR/Release.h"
#include "binade/IR/Watch.h"
#include <queue>

using namespace mlir;
using namespace mlir::binade;

/// Maximum number of transposed copies per kernel: each takes shared memory.
static constexpr int64_t kMaxTransposedCopies = 4;

Schedule mlir::binade::getSchedule(Operation *op) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  return kernelOp ? kernelOp.getSchedule() : Schedule::Library;
}

bool mlir::binade::isElementwiseKernel(Operation *op) {
  return isa_and_present<ElementwiseOpInterface>(op) &&
         getSchedule(op) == Schedule::Elementwise;
}

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

namespace {
/// Assigns the ops of a block to fusion groups.
class Grouper {
public:
  explicit Grouper(Block &body) : body(body) {}

  std::vector<FusionGroup> run() {
    for (Operation &op : body.without_terminator())
      place(&op);
    for (OpOperand &operand : body.getTerminator()->getOpOperands())
      materialize(operand.get());
    if (getTarget(body.getParentOp()))
      mergeSiblings();
    joinTransposedCopies();
    return sort();
  }

private:
  using Moved = llvm::SmallSetVector<unsigned, 2>;

  //===--------------------------------------------------------------------===//
  // Groups
  //===--------------------------------------------------------------------===//

  void place(Operation *op) {
    position[op] = position.size();
    moments[op] = findPosition(op);
    if (isRecomputed(op))
      return; // Grouped once something other than a kernel reads it.
    auto kernelOp = dyn_cast<KernelOpInterface>(op);
    Schedule schedule = kernelOp ? kernelOp.getSchedule() : Schedule::Library;
    FusionGroup group{{op},         schedule,      getLoopShape(op, schedule),
                      getPhase(op), findEvery(op), 0};
    if (group.shape.empty() && schedule == Schedule::Elementwise)
      group.schedule = Schedule::Scalars;
    if (schedule == Schedule::RowReduction)
      addReduction(group, op);
    for (Value operand : op->getOperands())
      if (!isKernel(op) ||
          (schedule == Schedule::MultiTensor && !isConstant(operand) &&
           !isRecomputedInMultiTensor(operand.getDefiningOp())))
        materialize(operand);

    Moved moved;
    SmallVector<unsigned> inputs = getInputs(op, &moved);
    std::optional<unsigned> into = findInput(op, group, inputs, moved);
    if (into && mergeInputs(inputs, moved, *into))
      inputs = getInputs(op);
    // Equal multi-tensor ops share a launch, unless one depends on the other.
    bool canShareLaunch =
        schedule == Schedule::MultiTensor && !reducesTensors(op);
    if (canShareLaunch)
      if (auto found = multiTensorGroups.find(getLaunchKey(op));
          found != multiTensorGroups.end() &&
          !llvm::is_contained(inputs, found->second))
        into = found->second;
    if (into && isWithoutCycle(*into, inputs)) {
      join(op, group.schedule, *into, inputs);
    } else {
      for (unsigned input : inputs)
        isRead[input] = true;
      if (canShareLaunch)
        multiTensorGroups[getLaunchKey(op)] = groups.size();
      add(op, std::move(group));
    }
    if (unsigned own = groupOf.lookup(op);
        schedule == Schedule::FullReduction && !isRead[own])
      shareReading(own);
  }

  /// Returns the group among `inputs` that `op`, alone in `group`, should join.
  std::optional<unsigned> findInput(Operation *op, FusionGroup &group,
                                    ArrayRef<unsigned> inputs,
                                    const Moved &moved) {
    std::optional<unsigned> into;
    for (unsigned input : inputs) {
      group.level = std::max(group.level, groups[input].level + 1);
      if ((canJoin(groups[input], group) || isOfRows(groups[input], op)) &&
          !moved.contains(input) && readsOwnRows(op, input) &&
          (!into || isBetter(input, *into)))
        into = input;
    }
    return into;
  }

  /// Whether no cycle forms if an op that reads `inputs` joins group `into`.
  bool isWithoutCycle(unsigned into, ArrayRef<unsigned> inputs) const {
    return !isRead[into] || llvm::all_of(inputs, [&](unsigned input) {
      return input == into || groups[input].level < groups[into].level;
    });
  }

  /// Multi-tensor ops with equal keys may share a launch.
  static std::pair<OperationName, Attribute> getLaunchKey(Operation *op) {
    return {op->getName(), op->getAttr(kReleaseAttr)};
  }

  bool isBetter(unsigned into, unsigned than) const {
    return std::pair(!isRead[into], groups[into].level) >
           std::pair(!isRead[than], groups[than].level);
  }

  /// Merges the other groups among `inputs` into group `into` if they are
  /// elementwise, have the same loops, and neither group depends on the other.
  /// Returns whether a group was merged.
  bool mergeInputs(ArrayRef<unsigned> inputs, const Moved &moved,
                   unsigned into) {
    bool hasMerged = false;
    for (unsigned input : inputs) {
      FusionGroup &group = groups[into], &other = groups[input];
      if (input == into || other.schedule != Schedule::Elementwise ||
          moved.contains(input) || !canJoin(group, other))
        continue;
      // A group that depends on another one has a higher level, and that other
      // group is read.
      bool isIndependent = group.level == other.level ||
                           !isRead[group.level < other.level ? into : input];
      if (!isIndependent)
        continue;
      merge(input, into);
      hasMerged = true;
    }
    return hasMerged;
  }

  void merge(unsigned from, unsigned into) {
    FusionGroup &group = groups[into], &other = groups[from];
    for (const Reduced &reduced : other.reduced)
      remember(group.reduced, reduced);
    for (const SmallVector<int64_t> &shape : other.left)
      remember(group.left, shape);
    for (Operation *op : other.ops)
      groupOf[op] = into;
    llvm::append_range(group.ops, other.ops);
    llvm::sort(group.ops, [&](Operation *x, Operation *y) {
      return position.lookup(x) < position.lookup(y);
    });
    group.level = std::max(group.level, other.level);
    if (isReduction(other.schedule) ||
        (other.schedule == Schedule::ColumnReduction &&
         group.schedule == Schedule::Elementwise))
      group.schedule = other.schedule;
    isRead[into] = isRead[into] || isRead[from];
    other.ops.clear();
  }

  /// Merges a group with full reductions that no op reads yet into one that
  /// reads all of its operands anyway.
  void shareReading(unsigned index) {
    llvm::SetVector<Value> wanted = getMemory(groups[index]);
    llvm::SetVector<Operation *> readers;
    for (Value value : wanted)
      addReaders(value, readers);
    for (Operation *reader : readers) {
      auto found = groupOf.find(reader);
      if (found == groupOf.end() || found->second == index ||
          !canJoin(groups[found->second], groups[index]))
        continue;
      llvm::SetVector<Value> read = getMemory(groups[found->second]);
      if (llvm::all_of(wanted, [&](Value x) { return read.contains(x); }))
        return merge(index, found->second);
    }
  }

  /// On a GPU, merges groups that read the same tensors.
  void mergeSiblings() {
    auto mergeGroups = [&](unsigned from, unsigned into) { merge(from, into); };
    SiblingGroups siblings(groups, findAllInputs());
    siblings.mergeAll(canJoin, mergeGroups);
    siblings.mergeColumnSums(mergeGroups);
  }

  /// On a GPU, lets elementwise kernels also write transposed copies of their
  /// results. The users of a copy depend on the kernel anyway.
  void joinTransposedCopies() {
    for (unsigned index = 0; index < groups.size(); ++index) {
      Operation *op =
          groups[index].ops.empty() ? nullptr : groups[index].ops.front();
      if (groups[index].schedule != Schedule::Permute ||
          !findTransposedCopy(op) || !getTarget(op))
        continue;
      auto into = groupOf.find(op->getOperand(0).getDefiningOp());
      if (into == groupOf.end())
        continue;
      const FusionGroup &group = groups[into->second];
      bool hasRoom =
          llvm::count_if(group.ops, findTransposedCopy) < kMaxTransposedCopies;
      if (hasRoom && group.phase == groups[index].phase &&
          (group.schedule == Schedule::Elementwise ||
           group.schedule == Schedule::FullReduction))
        merge(index, into->second);
    }
  }

  void add(Operation *op, FusionGroup group) {
    groupOf[op] = groups.size();
    groups.push_back(std::move(group));
    isRead.push_back(false);
  }

  static bool isReduction(Schedule schedule) {
    return schedule == Schedule::RowReduction ||
           schedule == Schedule::FullReduction;
  }

  /// Returns the shape of the op's loops: for reductions the operand's.
  static SmallVector<int64_t> getLoopShape(Operation *op, Schedule schedule) {
    bool reduces = isReduction(schedule) && op->getNumOperands() > 0;
    Value value = reduces ? op->getOperand(0) : op->getResult(0);
    return llvm::to_vector(getShape(value));
  }

  /// Whether ops are executed in the same phase and steps. Row kernels exclude
  /// ops that observe the step, whose full reductions would need separate
  /// kernels, and memory between these.
  static bool areExecutedTogether(const FusionGroup &into, Phase phase,
                                  std::optional<int64_t> every) {
    return into.phase == phase && into.every.value_or(1) == every.value_or(1) &&
           !(every && into.schedule == Schedule::RowReduction);
  }

  static bool canJoin(const FusionGroup &into, const FusionGroup &other) {
    if (!areExecutedTogether(into, other.phase, other.every))
      return false;
    if (into.schedule == Schedule::Scalars)
      return other.schedule == Schedule::Scalars;
    // Scalars are computed by the kernel that reduces a tensor to them.
    if (into.schedule == Schedule::FullReduction &&
        other.schedule == Schedule::Scalars)
      return ShapedType::getNumElements(into.shape) > 1;
    // Users of the result of a full reduction depend on the whole kernel.
    if (other.schedule == Schedule::FullReduction)
      return (into.schedule == Schedule::Elementwise ||
              into.schedule == Schedule::FullReduction) &&
             into.shape == other.shape;
    auto isRowwise = [](Schedule schedule) {
      return schedule == Schedule::Elementwise ||
             schedule == Schedule::RowReduction;
    };
    return isRowwise(into.schedule) && isRowwise(other.schedule) &&
           into.shape == other.shape &&
           llvm::all_of(into.reduced, [&](const Reduced &mine) {
             return llvm::all_of(other.reduced, [&](const Reduced &theirs) {
               return canShareRows(mine, theirs, into.shape);
             });
           });
  }

  /// Whether one kernel can do both reductions: of the same rows, of rows and
  /// of groups in them, or of groups in rows and in columns.
  static bool canShareRows(const Reduced &x, const Reduced &y,
                           ArrayRef<int64_t> shape) {
    if (x.group > 0 && y.group > 0)
      return x == y || (x.axes != y.axes && x.group > 1 && y.group > 1 &&
                        shape.back() > 1);
    if (x.group == 0 && y.group == 0)
      return x.axes == y.axes;
    auto rank = static_cast<int64_t>(shape.size());
    if ((x.group > 0 ? x : y).axes.back() != rank - 1)
      return false;
    ArrayRef<int64_t> axes = x.group > 0 ? y.axes : x.axes;
    return axes.back() == rank - 1 &&
           axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size());
  }

  template <typename List, typename Entry>
  static void remember(List &known, const Entry &one) {
    if (!llvm::is_contained(known, one))
      known.push_back(one);
  }

  static void addReduction(FusionGroup &group, Operation *op) {
    remember(group.reduced, cast<KernelOpInterface>(op).getReduced());
    remember(group.left, llvm::to_vector(getShape(op->getResult(0))));
  }

  /// Whether `op` computes with results of row reductions: once per row, or per
  /// group.
  static bool isOfRows(const FusionGroup &into, Operation *op) {
    auto kernelOp = dyn_cast<KernelOpInterface>(op);
    if (!areExecutedTogether(into, getPhase(op), findEvery(op)) || !kernelOp ||
        kernelOp.getSchedule() != Schedule::Elementwise)
      return false;
    return llvm::any_of(into.left, [&](ArrayRef<int64_t> shape) {
      auto isLeft = [&](Value value) { return getShape(value) == shape; };
      return llvm::all_of(op->getOperands(), isLeft) &&
             llvm::all_of(op->getResults(), isLeft);
    });
  }

  /// Whether `op` reads results of `into`'s row reductions only for the rows
  /// that it computes: in a square matrix, a broadcast may supply those of
  /// other rows.
  bool readsOwnRows(Operation *op, unsigned into) {
    const FusionGroup &group = groups[into];
    auto *rows = llvm::find_if(
        group.reduced, [](const Reduced &reduced) { return !reduced.group; });
    if (rows == group.reduced.end())
      return true;
    SmallVector<int64_t> kept;
    for (int64_t axis : llvm::seq<int64_t>(0, group.shape.size()))
      if (!llvm::is_contained(rows->axes, axis))
        kept.push_back(axis);
    SmallVector<Operation *> pending = {op};
    while (!pending.empty())
      for (Value operand : pending.pop_back_val()->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (!producer || !isRecomputed(producer))
          continue;
        pending.push_back(producer);
        auto broadcast = dyn_cast<BroadcastOp>(producer);
        if (!broadcast || broadcast.getAxes() == ArrayRef<int64_t>(kept))
          continue;
        if (llvm::is_contained(getInputs(broadcast), into))
          return false;
      }
    return true;
  }

  void join(Operation *op, Schedule schedule, unsigned into,
            ArrayRef<unsigned> inputs) {
    FusionGroup &group = groups[into];
    for (unsigned input : inputs)
      if (input != into) {
        group.level = std::max(group.level, groups[input].level + 1);
        isRead[input] = true;
      }
    group.ops.push_back(op);
    if (isReduction(schedule))
      group.schedule = schedule;
    if (schedule == Schedule::RowReduction)
      addReduction(group, op);
    groupOf[op] = into;
  }

  static bool isMultiTensor(Operation *op) {
    auto kernelOp = dyn_cast<KernelOpInterface>(op);
    return kernelOp && kernelOp.getSchedule() == Schedule::MultiTensor;
  }

  /// Whether a multi-tensor op combines all tensors to a scalar. A launch can
  /// return only one such scalar of each kind.
  static bool reducesTensors(Operation *op) {
    return llvm::any_of(op->getResults(),
                        [](Value result) { return getShape(result).empty(); });
  }

  /// Returns the groups that `op` reads. Kernels look through ops that they
  /// recompute. `moved` are the groups whose elements it reads at other places
  /// than its own, so that it cannot be computed with them.
  SmallVector<unsigned> getInputs(Operation *op, Moved *moved = nullptr) {
    llvm::SetVector<unsigned> inputs;
    bool looksThrough = isKernel(op) || isRecomputed(op);
    bool opIsMultiTensor = isMultiTensor(op);
    SmallVector<std::pair<Value, bool>> pending;
    auto read = [&](Operation *reader, bool isMoved) {
      isMoved |= reader != op && isMovement(reader) && !isView(reader);
      for (Value operand : reader->getOperands())
        pending.emplace_back(operand, isMoved);
    };
    read(op, op->hasTrait<ReadsNeighbors>());
    while (!pending.empty()) {
      auto [value, isMoved] = pending.pop_back_val();
      Operation *producer = value.getDefiningOp();
      if (!producer)
        continue;
      if (looksThrough && (opIsMultiTensor ? isRecomputedInMultiTensor(producer)
                                           : isRecomputed(producer))) {
        read(producer, isMoved);
      } else if (auto found = groupOf.find(producer); found != groupOf.end()) {
        inputs.insert(found->second);
        if (moved && isMoved)
          moved->insert(found->second);
      }
    }
    return inputs.takeVector();
  }

  /// Returns the groups that each group reads.
  std::vector<llvm::SmallSetVector<unsigned, 4>> findAllInputs() {
    std::vector<llvm::SmallSetVector<unsigned, 4>> all(groups.size());
    for (auto [index, group] : llvm::enumerate(groups))
      for (Operation *op : group.ops)
        for (unsigned input : getInputs(op))
          if (input != index)
            all[index].insert(input);
    return all;
  }

  /// Assigns a recomputed op to a group, because a library call, a view or the
  /// function's caller reads it from memory: to that of an operand, which has
  /// the operand in registers, or to one of its own.
  void materialize(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !isRecomputed(op) || groupOf.contains(op))
      return;
    FusionGroup group{
        {op},         Schedule::Elementwise, llvm::to_vector(getShape(value)),
        getPhase(op), findEvery(op),         0};
    if (group.shape.empty())
      group.schedule = Schedule::Scalars;
    Moved moved;
    SmallVector<unsigned> inputs = getInputs(op, &moved);
    std::optional<unsigned> into = findInput(op, group, inputs, moved);
    if (into && keepsPlaces(op) && isWithoutCycle(*into, inputs))
      return join(op, group.schedule, *into, inputs);
    for (unsigned input : inputs)
      isRead[input] = true;
    add(op, std::move(group));
  }

  /// Whether each element of `op` depends on the one at its place in the first
  /// operand, as in a cast or a dequantization.
  static bool keepsPlaces(Operation *op) {
    return !isMovement(op) && !op->hasTrait<ReadsNeighbors>() &&
           getShape(op->getOperand(0)) == getShape(op->getResult(0));
  }

  //===--------------------------------------------------------------------===//
  // Order
  //===--------------------------------------------------------------------===//

  /// Returns when `op` is executed, in program order. Ops that observe the step
  /// follow it in the program, but should be executed when their operands are
  /// known.
  unsigned findPosition(Operation *op) const {
    if (!findEvery(op))
      return position.lookup(op);
    unsigned moment = 0;
    for (Value operand : op->getOperands())
      moment = std::max(moment, moments.lookup(operand.getDefiningOp()));
    return moment;
  }

  unsigned getPosition(const FusionGroup &group) const {
    unsigned moment = 0;
    for (Operation *op : group.ops)
      moment = std::max(moment, moments.lookup(op));
    return moment;
  }

  /// Adds the groups that read `value` or a view of it in the forward or
  /// backward pass. They do not depend on updates.
  void addReadersBeforeUpdate(Value value,
                              llvm::SmallSetVector<unsigned, 4> &before) {
    for (Operation *user : value.getUsers()) {
      Operation *op = body.findAncestorOpInBlock(*user);
      if (!op || getPhase(op) == Phase::Optimizer || findEvery(op))
        continue;
      if (auto found = groupOf.find(op); found != groupOf.end())
        before.insert(found->second);
      if (isView(op) || isRecomputed(op))
        for (Value result : op->getResults())
          addReadersBeforeUpdate(result, before);
    }
  }

  /// Returns the groups after which each group is executed: those that it
  /// reads, and for updates in the backward pass those that read what it
  /// overwrites.
  std::vector<llvm::SmallSetVector<unsigned, 4>> findAllBefore() {
    std::vector<llvm::SmallSetVector<unsigned, 4>> all = findAllInputs();
    for (auto [group, before] : llvm::zip(groups, all))
      for (Operation *op : group.ops)
        if (op->hasAttr(kReleaseAttr))
          for (Value operand : op->getOperands())
            if (isa<BlockArgument>(operand) && !getShape(operand).empty())
              addReadersBeforeUpdate(operand, before);
    return all;
  }

  /// Sorts topologically, as close to program order as possible. Groups that
  /// read only arguments are placed before their first reader.
  std::vector<FusionGroup> sort() {
    std::vector<llvm::SetVector<unsigned>> readers(groups.size());
    std::vector<unsigned> missing(groups.size(), 0);
    for (const auto &[index, inputs] : llvm::enumerate(findAllBefore())) {
      missing[index] = inputs.size();
      for (unsigned input : inputs)
        readers[input].insert(index);
    }
    std::vector<unsigned> key(groups.size());
    for (unsigned index = groups.size(); index-- > 0;) {
      if (groups[index].ops.empty())
        continue;
      key[index] = 2 * getPosition(groups[index]) + 1;
      if (missing[index] == 0)
        for (unsigned reader : readers[index]) {
          unsigned other = 2 * getPosition(groups[reader]);
          key[index] = reader == readers[index].front()
                           ? other
                           : std::min(key[index], other);
        }
    }
    using Entry = std::pair<unsigned, unsigned>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
    for (unsigned index = 0; index < groups.size(); ++index)
      if (missing[index] == 0 && !groups[index].ops.empty())
        ready.emplace(key[index], index);
    std::vector<FusionGroup> sorted;
    while (!ready.empty()) {
      unsigned index = ready.top().second;
      ready.pop();
      for (unsigned reader : readers[index])
        if (--missing[reader] == 0)
          ready.emplace(key[reader], reader);
      sorted.push_back(std::move(groups[index]));
    }
    assert(llvm::count_if(groups,
                          [](const FusionGroup &group) {
                            return !group.ops.empty();
                          }) == 0 &&
           "groups must not depend on each other");
    return sorted;
  }

  Block &body;
  std::vector<FusionGroup> groups;
  /// Whether the level of another group was computed from this one's.
  std::vector<bool> isRead;
  DenseMap<Operation *, unsigned> groupOf;
  DenseMap<Operation *, unsigned> position, moments;
  /// The latest group of the multi-tensor ops of each key.
  DenseMap<std::pair<OperationName, Attribute>, unsigned> multiTensorGroups;
};
} // namespace

std::vector<FusionGroup> mlir::binade::groupOps(Block &body) {
  return Grouper(body).run();
}
