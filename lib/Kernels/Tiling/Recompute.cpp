//===- Recompute.cpp - Recompute cheap saved values -----------------------===//
//
// An elementwise op reads and writes memory once. Recomputing it when the
// backward pass needs its result costs a fraction of the matmuls around it, and
// saves the memory of the result. A value that a broadcast repeats is saved
// before the broadcast.
//
//===----------------------------------------------------------------------===//

#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Rematerialize.h"
#include "binade/Kernels/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "binade/Kernels/Passes.h.inc"

static bool isElementwise(Operation *op) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  return isa<ElementwiseOpInterface>(op) && kernelOp &&
         kernelOp.getSchedule() == Schedule::Elementwise &&
         op->getNumResults() == 1;
}

/// Saves the operand of a broadcast instead of its result.
static void saveBeforeBroadcast(SaveOp save, Rematerializer &rematerializer) {
  Value value = save.getX();
  while (isView(value.getDefiningOp()) && isMovement(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  Operation *user = findFirstUser(save.getResult());
  if (isRecomputedBroadcast(value.getDefiningOp()) && user)
    rematerializer.keep(value.getDefiningOp()->getOperand(0), user);
}

namespace {
struct RecomputePass : impl::RecomputePassBase<RecomputePass> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      recompute(program.front());
  }

  static void recompute(Block &body) {
    Rematerializer rematerializer(body);
    for (auto save : llvm::make_early_inc_range(body.getOps<SaveOp>())) {
      saveBeforeBroadcast(save, rematerializer);
      SmallVector<Operation *> ops =
          rematerializer.find(save, /*most=*/1, isElementwise);
      // Views of a saved value need no memory, so that recomputing them saves
      // nothing.
      if (!llvm::all_of(ops, isView))
        rematerializer.replace(save, ops);
    }
  }
};
} // namespace
} // namespace mlir::binade
