//===- Recompute.cpp - Compute again what is cheaper than to keep ---------===//
// An elementwise op reads and writes memory once: to run it again when the
// backward part needs its result costs a fraction of the products around it,
// and the result need not be kept from forward to backward. What has the same
// elements many times is made from them once more.
//===----------------------------------------------------------------------===//

#include "Movement.h"
#include "binade/IR/Interface.h"
#include "binade/Kernels/Passes.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::binade {
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "binade/Kernels/Passes.h.inc"

namespace {
/// A view, but not one that keeps a value.
bool isPlainView(Operation *op) { return isView(op) && isMovement(op); }

bool isCheap(Operation *op) {
  auto kernelOp = dyn_cast_or_null<KernelOpInterface>(op);
  return isa_and_nonnull<ElementwiseOpInterface>(op) && kernelOp &&
         kernelOp.getSchedule() == Schedule::Elementwise &&
         op->getNumResults() == 1;
}

/// Whether `op` has the elements of its operand, each more than once.
bool isSpread(Operation *op) {
  auto kernelOp = dyn_cast_or_null<KernelOpInterface>(op);
  return kernelOp && kernelOp.isRecomputed() && op->getNumOperands() == 1 &&
         getNumElements(op->getOperand(0)) < getNumElements(op->getResult(0));
}

class Recomputer {
public:
  explicit Recomputer(Block &body) : body(body) {
    for (auto save : body.getOps<SaveOp>())
      if (save.getX().getType() == save.getType())
        saves[save.getX()] = save;
  }

  void run() {
    for (auto save : llvm::make_early_inc_range(body.getOps<SaveOp>()))
      recompute(save);
  }

private:
  /// Whether `user`, of the backward part, has `value` anyway.
  bool isKept(Value value, Operation *user) const {
    Operation *producer = value.getDefiningOp();
    SaveOp save = saves.lookup(value);
    return !producer || producer->hasTrait<OpTrait::ConstantLike>() ||
           (save && save->isBeforeInBlock(user)) ||
           (isRepeated(producer) && isKept(producer->getOperand(0), user));
  }

  /// The value that the backward part has for `value`.
  Value getKept(OpBuilder &b, Value value) {
    if (SaveOp save = saves.lookup(value))
      return save.getResult();
    Operation *producer = value.getDefiningOp();
    return producer && isRepeated(producer) ? clone(b, producer) : value;
  }

  /// Whether what `op` makes is there where its operand is.
  static bool isRepeated(Operation *op) {
    return isPlainView(op) || isSpread(op);
  }

  /// Lets the backward part have `value`.
  void keep(Value value, Operation *user) {
    if (isKept(value, user))
      return;
    OpBuilder b(value.getContext());
    b.setInsertionPointAfterValue(value);
    saves[value] = SaveOp::create(b, value.getLoc(), value);
  }

  Value clone(OpBuilder &b, Operation *op) {
    IRMapping kept;
    for (Value operand : op->getOperands())
      if (!kept.contains(operand))
        kept.map(operand, getKept(b, operand));
    Operation *again = b.clone(*op, kept);
    setPhase(again, Phase::Backward);
    return again->getResult(0);
  }

  void recompute(SaveOp save) {
    Value value = save.getX();
    SmallVector<Operation *> views;
    while (isPlainView(value.getDefiningOp())) {
      views.push_back(value.getDefiningOp());
      value = views.back()->getOperand(0);
    }
    Operation *producer = value.getDefiningOp();
    Operation *user = findFirstUser(save.getResult());
    if (isSpread(producer) && user)
      keep(producer->getOperand(0), user);
    if (!(isCheap(producer) || isSpread(producer)) || !user ||
        (!views.empty() && saves.contains(value)) ||
        !llvm::all_of(producer->getOperands(),
                      [&](Value operand) { return isKept(operand, user); }))
      return;
    if (saves.lookup(save.getX()) == save)
      saves.erase(save.getX());
    ImplicitLocOpBuilder b(save.getLoc(), user);
    IRMapping again;
    again.map(value, clone(b, producer));
    for (Operation *view : llvm::reverse(views))
      setPhase(b.clone(*view, again), Phase::Backward);
    Value same = again.lookup(save.getX());
    if (same.getType() != save.getType()) {
      same = CastOp::create(b, save.getType(), same);
      setPhase(same.getDefiningOp(), Phase::Backward);
    }
    save.getResult().replaceAllUsesWith(same);
    save.erase();
  }

  Block &body;
  /// For each forward value, the op that keeps it as it is.
  DenseMap<Value, SaveOp> saves;
};

struct RecomputePass : impl::RecomputePassBase<RecomputePass> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      Recomputer(program.front()).run();
  }
};
} // namespace
} // namespace mlir::binade
