//===- FuseMovementIntoKernels.cpp - Movement as offsets in kernels -------===//
//
// A kernel computes the place of every element that it reads. It can therefore
// read through slices, transposes and concatenations, which then take no pass
// over memory, and compute the elementwise ops before them, whose results no
// other op reads.
//
//===----------------------------------------------------------------------===//

#include "Grouping.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Watch.h"
#include "binade/Kernels/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::binade {
#define GEN_PASS_DEF_FUSEMOVEMENTINTOKERNELSPASS
#include "binade/Kernels/Passes.h.inc"

/// Maximum number of ops that several kernels recompute.
static constexpr size_t kMaxRecomputed = 16;

/// Whether kernels can read through `op` without losing contiguous vectors.
static bool isReadThrough(Operation *op) {
  if (getSchedule(op) != Schedule::Permute)
    return false;
  int64_t run = cast<KernelOpInterface>(op).getRunLength();
  return run > 0 && run % kWidestVector == 0;
}

/// Whether `op` is a view of elements that are in the memory of its operand in
/// the same order.
static bool isPlainView(Operation *op) {
  return isView(op) && isMovement(op) && !op->hasAttr(kElidedAttr);
}

/// Whether `op` is a view of a value that kernels compute again, such as a
/// widening cast: without the view, none would store it.
static bool isViewOfRecomputed(Operation *op) {
  Operation *producer =
      isPlainView(op) ? op->getOperand(0).getDefiningOp() : nullptr;
  return producer && isRecomputed(producer) &&
         !producer->hasTrait<OpTrait::ConstantLike>();
}

static void mark(Operation *op) {
  op->setAttr(kRecomputedAttr, UnitAttr::get(op->getContext()));
}

namespace {
/// The kernel ops that read a value, directly or through recomputed ops and
/// views.
class Readers {
public:
  /// Adds the readers of `value`, which `producer` or an op before it computes.
  /// Returns false if something else reads it, too.
  bool add(Value value, Operation *producer) {
    return !value.use_empty() &&
           llvm::all_of(value.getUsers(), [&](Operation *user) {
             if (user->getBlock() != producer->getBlock() ||
                 getPhase(user) != getPhase(producer) || findEvery(user))
               return false;
             if (isPlainView(user))
               views.insert(user);
             if (isPlainView(user) || isRecomputed(user))
               return add(user->getResult(0), producer);
             kernels.insert(user);
             return computesElements(user);
           });
  }

  size_t size() const { return kernels.size(); }
  ArrayRef<Operation *> getViews() const { return views.getArrayRef(); }

private:
  /// Whether the kernel of `op` computes the elements that it reads.
  static bool computesElements(Operation *op) {
    switch (getSchedule(op)) {
    case Schedule::Elementwise:
    case Schedule::RowReduction:
    case Schedule::ColumnReduction:
    case Schedule::FullReduction:
    case Schedule::Permute:
      return true;
    default:
      return false;
    }
  }

  llvm::SmallSetVector<Operation *, 4> kernels, views;
};

/// The ops that kernels compute with a movement: those whose results only the
/// movement reads.
class Producers {
public:
  explicit Producers(Operation *movement) : movement(movement) {
    ops.insert(movement);
    for (size_t next = 0; next < ops.size(); ++next)
      for (Value operand : ops[next]->getOperands())
        if (Operation *producer = operand.getDefiningOp();
            producer && isComputedInside(producer))
          ops.insert(producer);
  }

  /// Whether `readers` kernels move fewer bytes if each of them computes the
  /// ops than if a kernel stores their results.
  bool areCheap(int64_t readers) {
    int64_t stored = 0, loaded = 0;
    for (Value operand : movement->getOperands())
      stored += getByteSize(operand.getType());
    for (auto [value, bytes] : countLoads())
      if (bytes * kCached > stored)
        loaded += bytes;
    if (readers > 1 && ops.size() > kMaxRecomputed)
      return false;
    return readers * loaded <= loaded + (readers + 1) * stored;
  }

  /// Marks all of them but movements, which have other readers to check.
  void markElementwise() {
    for (Operation *op : ops)
      if ((isElementwiseKernel(op) || isPlainView(op)) && !isRecomputed(op))
        mark(op);
  }

private:
  bool isComputedInside(Operation *op) const {
    if (isRecomputed(op))
      return true;
    auto isInside = [&](Operation *user) { return ops.contains(user); };
    return op->getBlock() == movement->getBlock() &&
           getPhase(op) == getPhase(movement) && !findEvery(op) &&
           (isElementwiseKernel(op) || isReadThrough(op) || isPlainView(op)) &&
           llvm::all_of(op->getUsers(), isInside);
  }

  /// Returns the bytes that a kernel loads of each value that the ops read.
  llvm::MapVector<Value, int64_t> countLoads() const {
    llvm::MapVector<Value, int64_t> loads;
    for (Operation *op : ops)
      for (Value operand : op->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (producer && ops.contains(producer))
          continue;
        auto whole = static_cast<int64_t>(getByteSize(operand.getType()));
        int64_t part = whole;
        if (isReadThrough(op))
          part = getByteSize(op->getResult(0).getType());
        int64_t &bytes = loads[operand];
        bytes = std::min(whole, bytes + part);
      }
    return loads;
  }

  Operation *movement;
  llvm::SmallSetVector<Operation *, 16> ops;
};

struct FuseMovementIntoKernelsPass
    : impl::FuseMovementIntoKernelsPassBase<FuseMovementIntoKernelsPass> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      if (getTarget(program))
        program.walk([](Block *block) { fuse(*block); });
  }

private:
  /// Visits readers before what they read. A movement that is stored has a
  /// kernel of its own, which computes the ops before it.
  static void fuse(Block &block) {
    for (Operation &op : llvm::reverse(block)) {
      if (!isReadThrough(&op) && !isViewOfRecomputed(&op))
        continue;
      Readers readers;
      bool isRead = readers.add(op.getResult(0), &op);
      if (isRead) {
        mark(&op);
        llvm::for_each(readers.getViews(), mark);
      }
      if (isPlainView(&op))
        continue;
      Producers producers(&op);
      if (producers.areCheap(isRead ? readers.size() : 1))
        producers.markElementwise();
    }
  }
};
} // namespace
} // namespace mlir::binade
