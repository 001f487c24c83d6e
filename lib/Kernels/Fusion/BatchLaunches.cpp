//===- BatchLaunches.cpp - One launch for equal small kernels -------------===//
//
// A step of a transformer quantizes a hundred weights, and finds as many scales
// from their largest magnitudes. On a GPU such a launch takes a few
// microseconds, however small it is. Launches of one kernel that do not depend
// on each other become one launch with a segment for each of them.
//
//===----------------------------------------------------------------------===//

#include "Batching.h"
#include "binade/IR/Batches.h"
#include "binade/IR/Interface.h"
#include "binade/IR/TransposedMatrices.h"
#include "binade/IR/Watch.h"
#include "binade/Kernels/Passes.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::binade {
#define GEN_PASS_DEF_BATCHLAUNCHESPASS
#include "binade/Kernels/Passes.h.inc"

/// Bytes of results that may be live earlier than needed.
static constexpr uint64_t kHoisted = uint64_t(1) << 16;

static uint64_t countBytes(TypeRange types) {
  uint64_t bytes = 0;
  for (Type type : types)
    bytes += getByteSize(type);
  return bytes;
}

/// Whether the kernel of `op` needs no workspace for it, and has a work item
/// per row.
static bool isOfRows(KernelOpInterface op, bool isFull) {
  bool readsIndices =
      llvm::any_of(llvm::seq(op->getNumOperands()), [&](unsigned index) {
        return op.getIndexRange(index).has_value();
      });
  if (readsIndices || (isFull && findTransposedMatrices(op)))
    return false;
  if (op.getSchedule() == Schedule::FullReduction)
    return getNumElements(op->getOperand(0)) <= kOneItem;
  if (op.getSchedule() == Schedule::ColumnReduction)
    return false;
  if (op.getSchedule() != Schedule::RowReduction)
    return true;
  int64_t last = getTensor(op->getOperand(0)).getRank() - 1;
  return op.getReduced().axes.back() == last;
}

/// Whether the work items of `kernel` can be those of any number of tensors.
static bool canBatch(func::FuncOp kernel) {
  Schedule schedule =
      kernel->getAttrOfType<ScheduleAttr>(kKernelAttr).getValue();
  bool isFull = schedule == Schedule::FullReduction;
  if (!isFull && schedule != Schedule::Elementwise &&
      schedule != Schedule::RowReduction && schedule != Schedule::Permute &&
      schedule != Schedule::Scalars)
    return false;
  return llvm::all_of(
      kernel.front().getOps<KernelOpInterface>(),
      [&](KernelOpInterface op) { return isOfRows(op, isFull); });
}

namespace {
/// A launch, and when it may be executed.
struct Candidate {
  LaunchOp launch;
  unsigned earliest = 0; ///< After the op at this position.
  unsigned latest = 0;   ///< Before the op at this position.
};

class Batcher {
public:
  explicit Batcher(Block &block) : block(block) {}

  /// Moves launches that depend only on arguments, and have small results, to
  /// the beginning, those first that depend on the fewest others, so that more
  /// launches can be executed together. Views that they read move with them.
  void hoist() {
    DenseMap<Operation *, unsigned> depths;
    SmallVector<Operation *> hoisted;
    for (auto launch : block.getOps<LaunchOp>()) {
      auto isEarly = [&](Value operand) {
        Operation *producer = findBase(operand).getDefiningOp();
        return !producer || depths.contains(producer);
      };
      if (findEvery(launch) || !llvm::all_of(launch.getOperands(), isEarly) ||
          countBytes(launch->getResultTypes()) > kHoisted)
        continue;
      unsigned depth = 0;
      for (Value operand : launch.getOperands())
        if (Operation *producer = findBase(operand).getDefiningOp())
          depth = std::max(depth, depths.lookup(producer) + 1);
      for (Value operand : launch.getOperands())
        addViews(operand, depth, depths, hoisted);
      depths[launch] = depth;
      hoisted.push_back(launch);
    }
    llvm::stable_sort(hoisted, [&](Operation *x, Operation *y) {
      return depths.lookup(x) < depths.lookup(y);
    });
    for (Operation *op : llvm::reverse(hoisted))
      op->moveBefore(&block, block.begin());
  }

  /// Batches the launches of one kernel, which are in the order of the block. A
  /// batch has all launches that can be executed where the first of their
  /// results is read.
  void run(ArrayRef<LaunchOp> launches) {
    findPositions();
    std::vector<Candidate> candidates = findCandidates(launches);
    auto indices = llvm::to_vector(llvm::seq<size_t>(candidates.size()));
    auto sortBy = [&](unsigned Candidate::*member) {
      SmallVector<size_t> sorted = indices;
      llvm::stable_sort(sorted, [&](size_t x, size_t y) {
        return candidates[x].*member < candidates[y].*member;
      });
      return sorted;
    };
    SmallVector<size_t> byEarliest = sortBy(&Candidate::earliest);
    ArrayRef<size_t> rest = byEarliest;
    llvm::BitVector isBatched(candidates.size());
    for (size_t first : sortBy(&Candidate::latest)) {
      if (isBatched.test(first))
        continue;
      unsigned point = candidates[first].latest;
      SmallVector<size_t> batch;
      for (; !rest.empty() && candidates[rest.front()].earliest < point;
           rest = rest.drop_front()) {
        batch.push_back(rest.front());
        isBatched.set(rest.front());
      }
      llvm::sort(batch);
      if (batch.size() > 1)
        merge(llvm::map_to_vector(
                  batch, [&](size_t one) { return candidates[one].launch; }),
              point);
    }
  }

  bool hasMerged = false;

private:
  /// Adds the views through which a launch reads `operand`.
  static void addViews(Value operand, unsigned depth,
                       DenseMap<Operation *, unsigned> &depths,
                       SmallVectorImpl<Operation *> &hoisted) {
    Operation *view = operand.getDefiningOp();
    if (!view || !isView(view))
      return;
    addViews(view->getOperand(0), depth, depths, hoisted);
    if (depths.try_emplace(view, depth).second)
      hoisted.push_back(view);
  }

  void findPositions() {
    ops.clear();
    positions.clear();
    ops.push_back(nullptr); // Arguments.
    for (Operation &op : block) {
      positions[&op] = ops.size();
      ops.push_back(&op);
    }
  }

  /// Finds when each launch may be executed. If one of them reads a result of
  /// another one, that may be executed as late as possible.
  std::vector<Candidate> findCandidates(ArrayRef<LaunchOp> launches) const {
    std::vector<Candidate> candidates;
    DenseMap<Operation *, unsigned> latest;
    for (LaunchOp launch : launches) {
      Candidate &own = candidates.emplace_back();
      own.launch = launch;
      own.latest = ops.size() - 1;
      SmallVector<Operation *> views;
      for (Value result : launch->getResults())
        own.latest = std::min(own.latest, findFirst(result, views));
      latest[launch] = own.latest;
      for (Value operand : launch.getOperands()) {
        auto find = [&](Operation *producer) {
          unsigned position = positions.lookup(producer);
          return std::max(position, latest.lookup(producer));
        };
        own.earliest = std::max({own.earliest, find(operand.getDefiningOp()),
                                 find(findBase(operand).getDefiningOp())});
      }
    }
    return candidates;
  }

  /// Returns the position of the first op that reads `value`, directly or
  /// through views, which are added to `views`.
  unsigned findFirst(Value value, SmallVectorImpl<Operation *> &views) const {
    unsigned first = ops.size() - 1;
    for (Operation *user : value.getUsers()) {
      if (!isView(user)) {
        first = std::min(first, positions.lookup(user));
        continue;
      }
      views.push_back(user);
      first = std::min(first, findFirst(user->getResult(0), views));
    }
    return first;
  }

  /// Replaces `batch` by one launch before the op at position `point`.
  void merge(ArrayRef<LaunchOp> batch, unsigned point) {
    SmallVector<Operation *> views;
    SmallVector<Attribute> kernels;
    SmallVector<Value> operands, results;
    SmallVector<Location> locations;
    for (LaunchOp launch : batch) {
      llvm::append_range(kernels, launch.getKernels());
      llvm::append_range(operands, launch.getOperands());
      llvm::append_range(results, launch->getResults());
      locations.push_back(launch.getLoc());
      for (Value result : launch->getResults())
        findFirst(result, views);
    }
    OpBuilder b(ops[point]);
    auto all = LaunchOp::create(b, FusedLoc::get(b.getContext(), locations),
                                TypeRange(ValueRange(results)),
                                b.getArrayAttr(kernels), operands);
    setPhase(all, getPhase(batch.front()));
    for (auto [before, after] : llvm::zip(results, all.getResults()))
      before.replaceAllUsesWith(after);
    for (LaunchOp launch : batch)
      launch.erase();
    // Views that were before this op follow the launch, in their order.
    llvm::sort(views, [&](Operation *x, Operation *y) {
      return positions.lookup(x) < positions.lookup(y);
    });
    Operation *last = all;
    for (Operation *view : views)
      if (positions.lookup(view) < point) {
        view->moveAfter(last);
        last = view;
      }
    hasMerged = true;
  }

  Block &block;
  SmallVector<Operation *> ops; ///< By position; null for arguments.
  DenseMap<Operation *, unsigned> positions;
};

struct BatchLaunchesPass : impl::BatchLaunchesPassBase<BatchLaunchesPass> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> programs = getPrograms(getOperation());
    if (programs.empty() || !getTarget(programs.front()))
      return;
    SymbolTable symbols(getOperation());
    findNested(programs);
    for (func::FuncOp program : programs)
      run(program.front(), symbols);
  }

private:
  /// Finds the kernels that tiles launch, whose operands move.
  void findNested(ArrayRef<func::FuncOp> programs) {
    for (func::FuncOp program : programs)
      program.walk([&](LaunchOp launch) {
        if (launch->getBlock() != &program.front())
          for (Attribute kernel : launch.getKernels())
            nested.insert(kernel);
      });
  }

  void run(Block &block, SymbolTable &symbols) {
    Batcher(block).hoist();
    llvm::MapVector<std::pair<Attribute, Phase>, SmallVector<LaunchOp>>
        byKernel;
    for (auto launch : block.getOps<LaunchOp>())
      if (isSmall(launch))
        byKernel[{launch.getKernels()[0], getPhase(launch)}].push_back(launch);
    for (auto &[key, launches] : byKernel) {
      auto kernel = symbols.lookup<func::FuncOp>(
          cast<FlatSymbolRefAttr>(key.first).getValue());
      if (launches.size() == 1 || nested.contains(key.first) ||
          !canBatch(kernel))
        continue;
      Batcher batcher(block);
      batcher.run(launches);
      if (batcher.hasMerged)
        kernel->setAttr(kBatchedAttr, UnitAttr::get(kernel.getContext()));
    }
  }

  static bool isSmall(LaunchOp launch) {
    return launch.getKernels().size() == 1 && !findEvery(launch) &&
           countBytes(launch->getOperandTypes()) +
                   countBytes(launch->getResultTypes()) <=
               kSmallLaunch;
  }

  llvm::DenseSet<Attribute> nested;
};
} // namespace
} // namespace mlir::binade
