//===- BuildGradient.cpp - Reverse-mode differentiation of a graph --------===//
//
// Adds adjoints (`differentiate`), and a `save` for each forward value that
// they read.
//
//===----------------------------------------------------------------------===//

#include "binade/Autodiff/Differentiate.h"
#include "binade/Autodiff/Passes.h"
#include "binade/Autodiff/SaveValues.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/DescribeTensor.h"
#include "binade/IR/Exported.h"
#include "binade/IR/MissingFunction.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::binade {
#define GEN_PASS_DEF_BUILDGRADIENTPASS
#include "binade/Autodiff/Passes.h.inc"

namespace {
/// Reports that `function` has no loss, and which outputs it could use.
void refuse(func::FuncOp function) {
  SmallVector<Port> outputs = getResults(function, Role::Output);
  InFlightDiagnostic error = function.emitError();
  if (std::optional<Port> loss = findResult(function, Role::Output, "loss"))
    error
        << "has no loss: output 'loss' has to have one floating-point element, "
           "but it is "
        << describeTensor(function.getResultTypes()[loss->index]);
  else
    error << "has no loss: none of its outputs is called 'loss'";
  Diagnostic &note = error.attachNote();
  note
      << "--loss 'cross_entropy(OUTPUT, LABELS)' or 'mse(OUTPUT, TARGET)' adds "
         "a loss to an output, --loss-output NAME uses an output as the loss";
  if (outputs.empty())
    return;
  note << "; outputs are ";
  llvm::interleaveComma(
      ArrayRef(outputs).take_front(8), note, [&](const Port &port) {
        note << "'" << port.name << "' "
             << describeTensor(function.getResultTypes()[port.index]);
      });
  if (outputs.size() > 8)
    note << ", ...";
}

/// Turns parameters without a gradient into buffers that the step does not
/// update. PyTorch's optimizers do not update or decay such parameters, either.
void freezeIndependent(func::FuncOp function) {
  llvm::StringSet<> trained;
  for (const Port &port : getResults(function, Role::Gradient))
    trained.insert(port.name);
  SmallVector<NewArgument> kept;
  SmallVector<Value> before;
  for (const Port &port : getArguments(function, Role::Parameter)) {
    if (trained.contains(port.name))
      continue;
    BlockArgument argument = function.getArgument(port.index);
    emitWarning(argument.getLoc(), "the loss does not depend on parameter '")
        << port.name << "': it is not trained";
    kept.push_back({port.name.str(), argument.getType(), argument.getLoc(),
                    function.getArgAttr(port.index, kInitAttr),
                    /*isFrozen=*/true});
    before.push_back(argument);
  }
  SmallVector<Value> after = addArguments(function, Role::Buffer, kept);
  llvm::BitVector replaced(function.getNumArguments());
  for (auto [argument, buffer] : llvm::zip(before, after)) {
    argument.replaceAllUsesWith(buffer);
    replaced.set(cast<BlockArgument>(argument).getArgNumber());
  }
  (void)function.eraseArguments(replaced);
}

struct BuildGradientPass : impl::BuildGradientPassBase<BuildGradientPass> {
  void runOnOperation() override {
    // The graph was imported with its gradients.
    if (auto gradient =
            getOperation().lookupSymbol<func::FuncOp>(kGradientName)) {
      saveForwardValues(gradient);
      return;
    }
    auto function = getOperation().lookupSymbol<func::FuncOp>(kForwardName);
    if (!function) {
      emitMissingFunction(getOperation(), kForwardName, "to differentiate");
      return signalPassFailure();
    }
    std::optional<Port> loss = findResult(function, Role::Metric, "loss");
    if (!loss) {
      refuse(function);
      return signalPassFailure();
    }
    auto type = cast<RankedTensorType>(function.getResultTypes()[loss->index]);
    if (type.getNumElements() != 1) {
      function.emitError("loss is ")
          << describeTensor(type) << ", expected one element";
      return signalPassFailure();
    }
    if (failed(differentiate(function, loss->index)))
      return signalPassFailure();
    freezeIndependent(function);
    saveForwardValues(function);
    function.setName(kGradientName);
  }
};
} // namespace
} // namespace mlir::binade
