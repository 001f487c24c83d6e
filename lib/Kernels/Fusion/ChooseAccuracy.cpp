//===- ChooseAccuracy.cpp - Accuracy of functions in kernels --------------===//

#include "binade/IR/Accuracy.h"
#include "binade/IR/Interface.h"
#include "binade/Kernels/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {
#define GEN_PASS_DEF_CHOOSEACCURACYPASS
#include "binade/Kernels/Passes.h.inc"

/// Returns the widest format of the results; null if one is an integer.
static FloatType getWidestResult(Operation *op) {
  FloatType widest;
  for (Type type : op->getResultTypes()) {
    auto format = dyn_cast<FloatType>(getElementTypeOrSelf(type));
    if (!format)
      return {};
    // f16 has more significant bits than bf16.
    bool isWider =
        !widest || format.getFPMantissaWidth() > widest.getFPMantissaWidth();
    widest = isWider ? format : widest;
  }
  return widest;
}

namespace {
/// Collects the ops that a builder creates.
struct CreatedOps : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    ops.push_back(op);
  }
  SmallVector<Operation *> ops;
};
} // namespace

/// Whether `op` or a part of its decomposition computes a function.
static bool computesFunction(Operation *op) {
  if (isa<ElementwiseOpInterface>(op))
    return hasFunction(op);
  CreatedOps created;
  ImplicitLocOpBuilder b(op->getLoc(), op, &created);
  auto decompose = [&](Operation *part) {
    auto kernelOp = dyn_cast<KernelOpInterface>(part);
    if (kernelOp && !isa<ElementwiseOpInterface>(part))
      (void)kernelOp.decompose(b);
  };
  decompose(op);
  // Grows while it is traversed.
  for (size_t i = 0; i < created.ops.size(); ++i) {
    b.setInsertionPointAfter(created.ops[i]);
    decompose(created.ops[i]);
  }
  bool found = llvm::any_of(created.ops, hasFunction);
  for (Operation *part : llvm::reverse(created.ops))
    part->erase();
  return found;
}

namespace {
struct ChooseAccuracyPass : impl::ChooseAccuracyPassBase<ChooseAccuracyPass> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<func::FuncOp>())
      if (kernel->hasAttr(kKernelAttr) && !kernel.isExternal())
        for (Operation &op :
             llvm::make_early_inc_range(kernel.front().without_terminator()))
          choose(&op);
  }

private:
  static void choose(Operation *op) {
    // Terms of gradients cancel, and leave the errors of their functions.
    auto algebra = dyn_cast<AlgebraOpInterface>(op);
    if (algebra && algebra.getLinearity() != Linearity::None)
      return;
    FloatType result = getWidestResult(op);
    FloatType accuracy = result ? getAccuracyFor(result) : FloatType();
    if (accuracy && !op->hasAttr(kAccuracyAttr) && computesFunction(op))
      op->setAttr(kAccuracyAttr, TypeAttr::get(accuracy));
  }
};
} // namespace
} // namespace mlir::binade
