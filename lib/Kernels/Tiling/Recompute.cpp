//===- Recompute.cpp - Compute again what is cheaper than to keep ---------===//
// An elementwise op reads and writes memory once: to run it again when the
// backward part needs its result costs a fraction of the products around it,
// and the result need not be kept from forward to backward. What has the same
// elements many times is made from them once more.
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

/// What is spread to what `save` keeps waits in its place.
static void keepNarrow(SaveOp save, Rematerializer &rematerializer) {
  Value value = save.getX();
  while (isView(value.getDefiningOp()) && isMovement(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  Operation *user = findFirstUser(save.getResult());
  if (isSpread(value.getDefiningOp()) && user)
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
      keepNarrow(save, rematerializer);
      SmallVector<Operation *> ops =
          rematerializer.find(save, /*most=*/1, isElementwise);
      // Views of what is kept are kept for nothing.
      if (!llvm::all_of(ops, isView))
        rematerializer.replace(save, ops);
    }
  }
};
} // namespace
} // namespace mlir::binade
