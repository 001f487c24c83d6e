//===- ReleaseGradients.cpp - Update parameters in the backward pass ------===//
//
// An update moves to the place where its gradient is complete and the backward
// pass has read its parameter for the last time. Small gradients wait for
// others, so that their updates share a launch.
//
//===----------------------------------------------------------------------===//

#include "Grouping.h"
#include "binade/IR/Build.h"
#include "binade/IR/ExchangeOps.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Release.h"
#include "binade/Kernels/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_RELEASEGRADIENTSPASS
#include "binade/Kernels/Passes.h.inc"

/// Bytes of gradients, and their part of all gradients, for which the updates
/// of a launch wait.
static constexpr uint64_t kMaxGroupBytes = uint64_t(1) << 20, kMinGroups = 16;

//===----------------------------------------------------------------------===//
// Settings that need all gradients
//===----------------------------------------------------------------------===//

/// Whether the optimizer phase computes `value` from statistics of gradients.
static bool dependsOnStatistics(Value value) {
  DenseSet<Operation *> seen;
  SmallVector<Operation *> pending = {value.getDefiningOp()};
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val();
    if (!op || getPhase(op) != Phase::Optimizer || !seen.insert(op).second)
      continue;
    if (isa<GradientStatisticsOp>(op))
      return true;
    for (Value operand : op->getOperands())
      pending.push_back(operand.getDefiningOp());
  }
  return false;
}

/// Whether the step adds gradients to sums of the gradients of other batches.
static bool sumsGradients(func::FuncOp step) {
  return llvm::any_of(
      getArguments(step, Role::Accumulator), [&](const Port &port) {
        return findArgument(step, Role::Parameter, port.name).has_value();
      });
}

/// Returns why the updates of `step` need all gradients and what the user can
/// do about it; an empty text if they do not.
static StringRef explainNeed(func::FuncOp step) {
  if (!getResults(step, Role::Gradient).empty())
    return "the step returns all of them; do not save gradients (--save-grads, "
           "keep_gradients in Python)";
  if (!step.getOps<ExchangeOp>().empty())
    return "processes exchange all of them before the update (--exchange); "
           "compile the step for one process";
  if (sumsGradients(step))
    return "they are added to sums over several batches (--accumulate), which "
           "stay in memory; use --accumulate-in-momentum, or one batch";
  for (auto update : step.getOps<OptimizerUpdateOp>()) {
    if (llvm::any_of(update.getFactors(), dependsOnStatistics))
      return "the norm of all of them scales each one (--clip); train without "
             "--clip";
    if (!update.getSkip() || !dependsOnStatistics(update.getSkip()))
      continue;
    if (findResult(step, Role::Scaler, "scale"))
      return "the policy's loss scale skips a step if any of them overflows; "
             "use a policy without a dynamic loss scale, such as bf16-amp";
    return "a step is skipped if any of them is not finite (--on-nonfinite "
           "skip); use --on-nonfinite stop, continue or shrink";
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

namespace {
/// Moves the updates of one program. The key of an op is the number of the op
/// after which it is executed: its own for ops that stay.
class GradientReleaser {
public:
  explicit GradientReleaser(func::FuncOp program) : body(program.front()) {
    for (Operation &op : body.without_terminator())
      numbers[&op] = numbers.size() + 1;
    updates = llvm::to_vector(program.getOps<OptimizerUpdateOp>());
  }

  void run() {
    findMoving();
    computeKeys();
    groupUpdates();
    for (auto op :
         llvm::make_early_inc_range(body.getOps<GradientStatisticsOp>()))
      splitStatistics(op);
    computeKeys();
    SmallVector<Operation *> ops =
        llvm::to_vector(llvm::make_pointer_range(body.without_terminator()));
    llvm::stable_sort(ops, [&](Operation *l, Operation *r) {
      return keys.lookup(l) < keys.lookup(r);
    });
    for (Operation *op : ops)
      op->moveBefore(body.getTerminator());
  }

private:
  /// Finds the ops that move: updates, statistics of gradients, and what these
  /// read of the optimizer phase.
  void findMoving() {
    SmallVector<Operation *> pending(updates.begin(), updates.end());
    for (auto op : body.getOps<GradientStatisticsOp>())
      pending.push_back(op);
    while (!pending.empty()) {
      Operation *op = pending.pop_back_val();
      bool isMoving = op && (getPhase(op) == Phase::Optimizer ||
                             op->hasTrait<OpTrait::ConstantLike>());
      if (!isMoving || !moving.insert(op).second)
        continue;
      for (Value operand : op->getOperands())
        pending.push_back(operand.getDefiningOp());
    }
  }

  /// Returns the key of the last op outside of the optimizer phase that reads
  /// `value` or a view of it.
  unsigned findLastRead(Value value) {
    unsigned last = 0;
    for (Operation *user : value.getUsers()) {
      Operation *op = body.findAncestorOpInBlock(*user);
      if (!op || getPhase(op) == Phase::Optimizer)
        continue;
      last = std::max(last, numbers.lookup(op));
      if (isView(op) || isRecomputed(op))
        for (Value result : op->getResults())
          last = std::max(last, findLastRead(result));
    }
    return last;
  }

  void computeKeys() {
    for (Operation &op : body.without_terminator()) {
      unsigned key = moving.contains(&op) ? 0 : numbers.lookup(&op);
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp())
          key = std::max(key, keys.lookup(producer));
      if (auto update = dyn_cast<OptimizerUpdateOp>(op)) {
        key = std::max(key, findLastRead(update.getParameter()));
        for (Value state : update.getStates())
          key = std::max(key, findLastRead(state));
        if (auto group = op.getAttrOfType<IntegerAttr>(kReleaseAttr))
          key = std::max(key, groupKeys[group.getInt()]);
      }
      keys[&op] = key;
    }
  }

  void groupUpdates() {
    SmallVector<OptimizerUpdateOp> sorted = updates;
    llvm::stable_sort(sorted, [&](OptimizerUpdateOp l, OptimizerUpdateOp r) {
      return keys.lookup(l) < keys.lookup(r);
    });
    uint64_t all = 0;
    for (OptimizerUpdateOp update : sorted)
      all += getByteSize(update.getGradient().getType());
    const uint64_t groupBytes = std::min(kMaxGroupBytes, all / kMinGroups);
    uint64_t bytes = groupBytes;
    for (OptimizerUpdateOp update : sorted) {
      if (bytes >= groupBytes) {
        groupKeys.push_back(0);
        bytes = 0;
      }
      bytes += getByteSize(update.getGradient().getType());
      groupKeys.back() = keys.lookup(update);
      update->setAttr(kReleaseAttr, OpBuilder(update).getI64IntegerAttr(
                                        groupKeys.size() - 1));
    }
  }

  /// Returns the first group that is updated when `gradient` is complete.
  unsigned findGroup(Value gradient) {
    Operation *producer = gradient.getDefiningOp();
    unsigned key = producer ? keys.lookup(producer) : 0;
    auto group = llvm::lower_bound(groupKeys, key);
    return std::min<size_t>(group - groupKeys.begin(), groupKeys.size() - 1);
  }

  /// Replaces statistics of all gradients by those of the gradients of each
  /// group, and combines these.
  void splitStatistics(GradientStatisticsOp op) {
    SmallVector<SmallVector<Value>> parts(groupKeys.size());
    for (Value gradient : op.getGradients())
      parts[findGroup(gradient)].push_back(gradient);
    llvm::erase_if(parts, [](ArrayRef<Value> part) { return part.empty(); });
    if (parts.size() < 2)
      return;
    ImplicitLocOpBuilder b(op.getLoc(), op);
    auto mark = [&](Operation *added) {
      setPhase(added, Phase::Optimizer);
      moving.insert(added);
    };
    Value squares, found;
    for (ArrayRef<Value> gradients : parts) {
      auto part =
          GradientStatisticsOp::create(b, op.getResultTypes(), gradients);
      mark(part);
      if (!squares) {
        squares = part.getSquares();
        found = part.getFoundInf();
        continue;
      }
      squares = AddOp::create(b, squares, part.getSquares());
      mark(squares.getDefiningOp());
      if (op.getFoundInf().use_empty())
        continue;
      found = SelectOp::create(b, found, found, part.getFoundInf());
      mark(found.getDefiningOp());
    }
    op.getSquares().replaceAllUsesWith(squares);
    op.getFoundInf().replaceAllUsesWith(found);
    op.erase();
  }

  Block &body;
  SmallVector<OptimizerUpdateOp> updates;
  DenseMap<Operation *, unsigned> numbers, keys;
  DenseSet<Operation *> moving;
  SmallVector<unsigned> groupKeys; ///< The key of each group, ascending.
};

struct ReleaseGradientsPass
    : impl::ReleaseGradientsPassBase<ReleaseGradientsPass> {
  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>(kStepName);
    if (StringRef need = step ? explainNeed(step) : StringRef();
        !need.empty()) {
      step.emitError("gradients cannot be released (--release-gradients): ")
          << need;
      return signalPassFailure();
    }
    for (func::FuncOp program : getPrograms(getOperation()))
      if (!program.getOps<OptimizerUpdateOp>().empty())
        GradientReleaser(program).run();
  }
};
} // namespace
} // namespace mlir::binade
