//===- RecomputeInReaders.cpp - Values that readers compute again ---------===//
//
// A tensor that is quantized with its own scale is computed twice as fast as it
// is stored and read: the first kernel finds the largest magnitude, the second
// one quantizes. If the elements follow from fewer bytes that are in memory
// anyway, the second kernel computes them again.
//
//===----------------------------------------------------------------------===//

#include "Grouping.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Rematerialize.h"
#include "binade/IR/Watch.h"
#include "binade/Kernels/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::binade {
#define GEN_PASS_DEF_RECOMPUTEINREADERSPASS
#include "binade/Kernels/Passes.h.inc"

/// Maximum number of ops that a reader computes again.
static constexpr size_t kMaxRecomputedInReader = 8;

static bool hasSchedule(Operation *op, ArrayRef<Schedule> schedules) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  return kernelOp && llvm::is_contained(schedules, kernelOp.getSchedule());
}

/// Whether `op` takes few instructions: it adds, multiplies or rounds elements.
static bool isCheap(Operation *op) {
  if (!isa<ElementwiseOpInterface>(op) ||
      !hasSchedule(op, Schedule::Elementwise))
    return false;
  auto algebra = dyn_cast<AlgebraOpInterface>(op);
  return isa<CastOp>(op) ||
         (algebra && (algebra.getLinearity() == Linearity::Joint ||
                      algebra.getLinearity() == Linearity::Product));
}

namespace {
/// The groups of a block.
class Groups {
public:
  explicit Groups(Block &block) : all(groupOps(block)) {
    for (const FusionGroup &group : all)
      for (Operation *op : group.ops)
        groupOf[op] = &group;
  }

  const std::vector<FusionGroup> &list() const { return all; }
  const FusionGroup *find(Operation *op) const { return groupOf.lookup(op); }

private:
  std::vector<FusionGroup> all;
  DenseMap<Operation *, const FusionGroup *> groupOf;
};

/// The kernels other than its own that read a value from memory.
class OtherReaders {
public:
  OtherReaders(Value value, const Groups &groups)
      : groups(groups), own(groups.find(value.getDefiningOp())) {
    add(value);
  }

  bool isEmpty() const { return found.empty() && onlyKernels; }
  /// Whether kernels of the same phase are the only readers.
  bool areKernels() const { return !found.empty() && onlyKernels; }
  ArrayRef<const FusionGroup *> get() const { return found.getArrayRef(); }

private:
  /// Adds the readers of `value`; `isStored` if the kernel stores it for ops
  /// that are not kernels.
  void add(Value value, bool isStored = false) {
    for (Operation *user : value.getUsers()) {
      const FusionGroup *group = groups.find(user);
      if (isRecomputed(user) && (!group || group == own)) {
        add(user->getResult(0), isStored || group == own);
        continue;
      }
      if (group == own || (isStored && !isKernel(user)))
        continue;
      onlyKernels &=
          group && group->phase == own->phase && !findEvery(user) &&
          hasSchedule(user,
                      {Schedule::Elementwise, Schedule::RowReduction,
                       Schedule::ColumnReduction, Schedule::FullReduction});
      found.insert(group);
    }
  }

  const Groups &groups;
  const FusionGroup *own;
  bool onlyKernels = true;
  llvm::SmallSetVector<const FusionGroup *, 2> found;
};

/// Computes a value of a group again from values in memory.
class Recomputation {
public:
  Recomputation(Value value, const Groups &groups,
                const llvm::DenseSet<Value> &removed)
      : value(value), groups(groups), removed(removed),
        own(groups.find(value.getDefiningOp())),
        b(value.getLoc(), value.getContext()) {
    listener.ops = &made;
    listener.phase = own->phase;
    b.setListener(&listener);
    b.setInsertionPointAfterValue(value);
    again = build(value);
  }

  /// Whether `readers` move fewer bytes with it.
  bool pays(ArrayRef<const FusionGroup *> readers) const {
    if (!again || made.size() > kMaxRecomputedInReader)
      return false;
    auto stored = static_cast<int64_t>(getByteSize(value.getType()));
    int64_t loaded = 0;
    for (const FusionGroup *reader : readers) {
      llvm::SetVector<Value> memory = getMemory(*reader);
      for (Value load : loads)
        if (auto bytes = static_cast<int64_t>(getByteSize(load.getType()));
            !memory.contains(load) && bytes * kCached > stored)
          loaded += bytes;
    }
    auto count = static_cast<int64_t>(readers.size());
    return loaded < (count + 1) * stored;
  }

  /// Lets all other kernels read the new ops.
  void apply() {
    for (Operation *op : made)
      if (!isRecomputed(op))
        op->setAttr(kRecomputedAttr, UnitAttr::get(op->getContext()));
    redirect(value, again);
  }

  void undo() {
    for (Operation *op : made)
      op->dropAllReferences();
    for (Operation *op : made)
      op->erase();
  }

  ArrayRef<Value> getLoads() const { return loads.getArrayRef(); }

private:
  /// Whether `value` is in memory after its kernel.
  bool isStored(Value value) const {
    return !removed.contains(value) && !OtherReaders(value, groups).isEmpty();
  }

  /// Returns `value` as the new ops compute it; null if they cannot.
  Value get(Value value) {
    Operation *producer = value.getDefiningOp();
    bool isLoaded =
        !producer || (groups.find(producer) != own && !isRecomputed(producer));
    if (isLoaded || (groups.find(producer) == own && isStored(value))) {
      loads.insert(value);
      return value;
    }
    if (Value known = copies.lookup(value))
      return known;
    return copies[value] = build(value);
  }

  Value build(Value value) {
    auto result = cast<OpResult>(value);
    Operation *op = result.getOwner();
    if (groups.find(op) != own) { // Each reader recomputes it anyway.
      for (Value operand : op->getOperands())
        if (get(operand) != operand)
          return clone(op);
      return value;
    }
    if (isCheap(op))
      return clone(op);
    return computeFromOtherResults(
        result, b, made,
        [](Operation *part) { return isCheap(part) || isRecomputed(part); },
        [&](Value operand) { return get(operand); });
  }

  Value clone(Operation *op) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(get(operand));
      if (!operands.back())
        return {};
    }
    Operation *copy = b.clone(*op);
    copy->setOperands(operands);
    return copy->getResult(0);
  }

  /// Replaces `before` in the kernels that do not compute it.
  void redirect(Value before, Value after) {
    for (OpOperand &use : llvm::make_early_inc_range(before.getUses())) {
      Operation *user = use.getOwner();
      if (groups.find(user) == own || llvm::is_contained(made, user))
        continue;
      if (groups.find(user)) {
        use.set(after);
        continue;
      }
      // Its readers recompute it; some of them may be in the value's kernel.
      OpBuilder at(user);
      Operation *copy = at.clone(*user);
      copy->setOperand(use.getOperandNumber(), after);
      redirect(user->getResult(0), copy->getResult(0));
    }
  }

  struct Listener : OpBuilder::Listener {
    SmallVector<Operation *> *ops;
    Phase phase = Phase::Forward;
    void notifyOperationInserted(Operation *op,
                                 OpBuilder::InsertPoint) override {
      setPhase(op, phase);
      ops->push_back(op);
    }
  };

  Value value, again;
  const Groups &groups;
  const llvm::DenseSet<Value> &removed;
  const FusionGroup *own;
  SmallVector<Operation *> made;
  Listener listener;
  ImplicitLocOpBuilder b;
  llvm::SmallSetVector<Value, 4> loads;
  DenseMap<Value, Value> copies;
};

struct RecomputeInReadersPass
    : impl::RecomputeInReadersPassBase<RecomputeInReadersPass> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      if (getTarget(program))
        program.walk([](Block *block) { run(*block); });
  }

private:
  static void run(Block &block) {
    Groups groups(block);
    llvm::DenseSet<Value> removed, loaded;
    // Results before what they are computed from, which is then stored.
    for (const FusionGroup &group : llvm::reverse(groups.list()))
      for (Operation *op : llvm::reverse(group.ops))
        for (Value value : op->getResults())
          if (!loaded.contains(value))
            visit(value, groups, removed, loaded);
  }

  static void visit(Value value, const Groups &groups,
                    llvm::DenseSet<Value> &removed,
                    llvm::DenseSet<Value> &loaded) {
    if (!hasSchedule(value.getDefiningOp(),
                     {Schedule::Elementwise, Schedule::RowReduction}) ||
        getTensor(value).getRank() == 0)
      return;
    OtherReaders readers(value, groups);
    if (!readers.areKernels())
      return;
    Recomputation recomputation(value, groups, removed);
    if (!recomputation.pays(readers.get()))
      return recomputation.undo();
    recomputation.apply();
    removed.insert(value);
    loaded.insert_range(recomputation.getLoads());
  }
};
} // namespace
} // namespace mlir::binade
