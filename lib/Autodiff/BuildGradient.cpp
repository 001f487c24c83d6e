//===- BuildGradient.cpp - Reverse-mode differentiation of a graph --------===//
// Adjoints (`differentiate`), and a `save` for each forward value that they
// read.
//===----------------------------------------------------------------------===//

#include "binade/Autodiff/Passes.h"
#include "binade/Autodiff/SaveValues.h"
#include "binade/IR/Differentiate.h"
#include "binade/IR/Exported.h"

namespace mlir::binade {
#define GEN_PASS_DEF_BUILDGRADIENTPASS
#include "binade/Autodiff/Passes.h.inc"

namespace {
struct BuildGradientPass : impl::BuildGradientPassBase<BuildGradientPass> {
  void runOnOperation() override {
    // A graph that came with its gradients.
    if (auto gradient =
            getOperation().lookupSymbol<func::FuncOp>(kGradientName)) {
      saveForwardValues(gradient);
      return;
    }
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
