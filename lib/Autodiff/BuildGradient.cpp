//===- BuildGradient.cpp - Reverse-mode differentiation of a graph --------===//
// Adjoints (`differentiate`), and a `save` for each forward value that they
// read.
//===----------------------------------------------------------------------===//

#include "binade/Autodiff/Passes.h"
#include "binade/IR/Differentiate.h"
#include "binade/IR/Exported.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::binade {
#define GEN_PASS_DEF_BUILDGRADIENTPASS
#include "binade/Autodiff/Passes.h.inc"

namespace {
/// Puts a `save` between each forward value and what reads it in the backward
/// part.
void saveForwardValues(func::FuncOp function) {
  llvm::MapVector<Value, SmallVector<OpOperand *>> crossing;
  for (Operation &op : function.front().without_terminator())
    if (getPhase(&op) == Phase::Backward)
      for (OpOperand &operand : op.getOpOperands())
        if (Operation *producer = operand.get().getDefiningOp();
            producer && getPhase(producer) == Phase::Forward &&
            !producer->hasTrait<OpTrait::ConstantLike>())
          crossing[operand.get()].push_back(&operand);
  ImplicitLocOpBuilder b(function.getLoc(), function.getContext());
  for (auto &[value, operands] : crossing) {
    b.setInsertionPointAfterValue(value);
    b.setLoc(value.getLoc());
    Value saved = SaveOp::create(b, value);
    for (OpOperand *operand : operands)
      operand->set(saved);
  }
}

struct BuildGradientPass : impl::BuildGradientPassBase<BuildGradientPass> {
  void runOnOperation() override {
    // A graph that came with its gradients.
    if (auto gradient =
            getOperation().lookupSymbol<func::FuncOp>(kGradientName))
      return saveForwardValues(gradient);
    auto function = getOperation().lookupSymbol<func::FuncOp>(kForwardName);
    if (!function) {
      getOperation().emitError(
          "expected a function '@forward' to differentiate");
      return signalPassFailure();
    }
    std::optional<Port> loss = findResult(function, Role::Metric, "loss");
    if (!loss) {
      function.emitError(
          "has no loss: expected a result of role metric and name "
          "'loss'; name an output (--loss-output) or add a loss (--loss) at "
          "import");
      return signalPassFailure();
    }
    auto type = cast<RankedTensorType>(function.getResultTypes()[loss->index]);
    if (type.getNumElements() != 1) {
      function.emitError("loss has type ") << type << ", expected one element";
      return signalPassFailure();
    }
    if (failed(differentiate(function, loss->index)))
      return signalPassFailure();
    saveForwardValues(function);
    function.setName(kGradientName);
  }
};
} // namespace
} // namespace mlir::binade
