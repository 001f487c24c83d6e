//===- Rebuild.cpp - Forward values computed again ------------------------===//

#include "Rebuild.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Rematerialize.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::binade;

/// The most ops, other than views and broadcasts, that compute a value.
static constexpr unsigned kMaxOps = 8;

static bool hasSchedule(Operation *op, Schedule schedule) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  return kernelOp && kernelOp.getSchedule() == schedule;
}

static bool isLookup(Operation *op) {
  return hasSchedule(op, Schedule::Gather) && op->getNumResults() == 1;
}

static bool isElementwise(Operation *op) {
  return isa<ElementwiseOpInterface>(op) &&
         hasSchedule(op, Schedule::Elementwise) && op->getNumResults() == 1;
}

/// Whether `op` takes no time of its own: its readers compute it.
static bool isFree(Operation *op) {
  return (isView(op) && isMovement(op)) || isRecomputedBroadcast(op);
}

namespace {
struct Listener : OpBuilder::Listener {
  explicit Listener(SmallVectorImpl<Operation *> &ops) : ops(ops) {}
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    setPhase(op, Phase::Backward);
    ops.push_back(op);
  }
  SmallVectorImpl<Operation *> &ops;
};
} // namespace

Rebuilt::Rebuilt(SaveOp save, const DenseMap<Value, SaveOp> &saves,
                 Operation *before)
    : save(save), saves(saves), before(before), left(kMaxOps),
      b(save.getLoc(), before) {
  Listener listener(ops);
  b.setListener(&listener);
  if (auto result = dyn_cast<OpResult>(save.getX()))
    value = build(result);
  b.setListener(nullptr);
  if (value)
    llvm::sort(
        ops, [](Operation *l, Operation *r) { return l->isBeforeInBlock(r); });
  else
    erase();
}

Value Rebuilt::get(Value value) {
  Operation *producer = value.getDefiningOp();
  if (!producer) {
    sources.insert(value);
    return value;
  }
  if (producer->hasTrait<OpTrait::ConstantLike>())
    return value;
  if (SaveOp kept = saves.lookup(value);
      kept && kept != save && kept->isBeforeInBlock(before)) {
    sources.insert(kept.getResult());
    return kept.getResult();
  }
  if (Value known = copies.lookup(value))
    return known;
  return copies[value] = build(cast<OpResult>(value));
}

Value Rebuilt::build(OpResult value) {
  Operation *op = value.getOwner();
  if (getPhase(op) != Phase::Forward || isa<SaveOp>(op))
    return {};
  if (isFree(op))
    return clone(op);
  if (isElementwise(op) || isLookup(op))
    return left-- > 0 ? clone(op) : Value();
  return op->getNumResults() > 1 ? decompose(value) : Value();
}

Value Rebuilt::clone(Operation *op) {
  IRMapping again;
  for (Value operand : op->getOperands()) {
    Value found = get(operand);
    if (!found)
      return {};
    again.map(operand, found);
  }
  return b.clone(*op, again)->getResult(0);
}

/// Builds `value` from the other results of its op, if they are saved.
Value Rebuilt::decompose(OpResult value) {
  Operation *op = value.getOwner();
  for (OpResult other : op->getResults())
    if (!isa<KernelOpInterface>(op) ||
        (other != value && !saves.contains(other)))
      return {};
  auto accepts = [&](Operation *part) {
    return isFree(part) || (isElementwise(part) && left-- > 0);
  };
  return computeFromOtherResults(value, b, ops, accepts,
                                 [&](Value operand) { return get(operand); });
}

double Rebuilt::countLoaded(function_ref<bool(Value source)> isLoaded) const {
  double bytes = 0;
  llvm::DenseSet<Value> counted;
  for (Operation *op : ops) {
    if (isLookup(op)) {
      bytes += double(getByteSize(op->getResult(0).getType()));
      continue;
    }
    for (Value operand : op->getOperands())
      if (sources.contains(operand) && !isLoaded(operand) &&
          counted.insert(operand).second)
        bytes += double(getByteSize(operand.getType()));
  }
  return bytes;
}

bool Rebuilt::isOneOp() const {
  return llvm::count_if(ops, [](Operation *op) { return !isFree(op); }) == 1 &&
         llvm::none_of(ops, isLookup);
}

ArrayRef<Operation *> Rebuilt::getViews() const {
  size_t count = 0;
  while (count < ops.size() && isView(ops[ops.size() - 1 - count]))
    ++count;
  return ArrayRef(ops).take_back(count);
}

void Rebuilt::moveBefore(Operation *op) {
  for (Operation *mine : ops)
    mine->moveBefore(op);
}

void Rebuilt::erase() {
  for (Operation *op : ops)
    op->dropAllReferences();
  for (Operation *op : ops)
    op->erase();
  ops.clear();
}
