//===- Rematerialize.cpp - Recomputation of forward values ----------------===//

#include "binade/IR/Rematerialize.h"
#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::binade;

/// Whether `op` is a view, but not a `save`.
static bool isPlainView(Operation *op) { return isView(op) && isMovement(op); }

bool mlir::binade::isRecomputedBroadcast(Operation *op) {
  auto kernelOp = dyn_cast_or_null<KernelOpInterface>(op);
  return kernelOp && kernelOp.isRecomputed() && op->getNumOperands() == 1 &&
         getNumElements(op->getOperand(0)) < getNumElements(op->getResult(0));
}

/// Erases the ops of `built` from index `first` on that nothing reads, except
/// `needed`.
static void eraseUnused(SmallVectorImpl<Operation *> &built, size_t first,
                        Operation *needed) {
  for (size_t index = built.size(); index-- > first;)
    if (built[index]->use_empty() && built[index] != needed) {
      built[index]->erase();
      built.erase(built.begin() + index);
    }
}

Value mlir::binade::computeFromOtherResults(
    OpResult result, ImplicitLocOpBuilder &b,
    SmallVectorImpl<Operation *> &built,
    function_ref<bool(Operation *)> accepts,
    function_ref<Value(Value)> findOperand) {
  Operation *op = result.getOwner();
  size_t first = built.size();
  auto parts = cast<KernelOpInterface>(op).decompose(b);
  if (failed(parts))
    return {};
  Value value = (*parts)[result.getResultNumber()];
  ArrayRef<Operation *> all = ArrayRef(built).drop_front(first);
  for (auto [part, other] : llvm::zip(*parts, op->getResults()))
    if (other != result && part != value &&
        llvm::is_contained(all, part.getDefiningOp()))
      part.replaceAllUsesWith(other);
  eraseUnused(built, first, value.getDefiningOp());

  SmallVector<Operation *> own(ArrayRef(built).drop_front(first));
  if (own.empty() || !llvm::all_of(own, accepts))
    return {};
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(own.front());
  for (Operation *part : own)
    for (OpOperand &operand : part->getOpOperands()) {
      if (llvm::is_contained(own, operand.get().getDefiningOp()))
        continue;
      Value found = findOperand(operand.get());
      if (!found)
        return {};
      operand.set(found);
    }
  return value;
}

namespace {
/// Searches the ops that recompute a value from available ones.
class Search {
public:
  using Available = function_ref<bool(Value)>;
  Search(unsigned most, Rematerializer::Predicate isCheap,
         Available isAvailable)
      : left(most), isCheap(isCheap), isAvailable(isAvailable) {}

  bool make(Operation *op) {
    if (found.contains(op))
      return true;
    if (!isPlainView(op) && !isRecomputedBroadcast(op) &&
        (!isCheap(op) || left-- == 0))
      return false;
    for (Value operand : op->getOperands())
      if (!isAvailable(operand) && !make(operand.getDefiningOp()))
        return false;
    found.insert(op);
    return true;
  }
  SmallVector<Operation *> take() { return found.takeVector(); }

private:
  unsigned left;
  Rematerializer::Predicate isCheap;
  Available isAvailable;
  llvm::SmallSetVector<Operation *, 8> found;
};
} // namespace

Rematerializer::Rematerializer(Block &body) {
  for (auto save : body.getOps<SaveOp>())
    if (save.getX().getType() == save.getType())
      saves[save.getX()] = save;
}

bool Rematerializer::isAvailable(Value value, Operation *user) const {
  Operation *producer = value.getDefiningOp();
  if (!producer || producer->hasTrait<OpTrait::ConstantLike>())
    return true;
  SaveOp save = saves.lookup(value);
  return save && save->isBeforeInBlock(user);
}

SmallVector<Operation *> Rematerializer::find(SaveOp save, unsigned most,
                                              Predicate isCheap) const {
  Operation *user = findFirstUser(save.getResult());
  Operation *producer = save.getX().getDefiningOp();
  if (!user || !producer)
    return {};
  auto isThere = [&](Value value) { return isAvailable(value, user); };
  Search search(most, isCheap, isThere);
  return search.make(producer) ? search.take() : SmallVector<Operation *>();
}

void Rematerializer::replace(SaveOp save, ArrayRef<Operation *> ops) {
  if (saves.lookup(save.getX()) == save)
    saves.erase(save.getX());
  ImplicitLocOpBuilder b(save.getLoc(), findFirstUser(save.getResult()));
  IRMapping again;
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (SaveOp kept = saves.lookup(operand); kept && !again.contains(operand))
        again.map(operand, kept.getResult());
    setPhase(b.clone(*op, again), Phase::Backward);
  }
  Value same = again.lookup(save.getX());
  if (same.getType() != save.getType()) {
    same = CastOp::create(b, save.getType(), same);
    setPhase(same.getDefiningOp(), Phase::Backward);
  }
  save.getResult().replaceAllUsesWith(same);
  save.erase();
}

void Rematerializer::keep(Value value, Operation *user) {
  if (isAvailable(value, user))
    return;
  OpBuilder b(value.getContext());
  b.setInsertionPointAfterValue(value);
  saves[value] = SaveOp::create(b, value.getLoc(), value);
}
