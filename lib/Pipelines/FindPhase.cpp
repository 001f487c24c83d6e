//===- FindPhase.cpp - The phase that wrote a module ----------------------===//

#include "binade/Pipelines/FindPhase.h"
#include "binade/IR/Binade.h"
#include "binade/IR/Exported.h"
#include "binade/IR/Interface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::binade;

std::optional<CompilerPhase> mlir::binade::findPhase(ModuleOp module) {
  if (module.lookupSymbol<func::FuncOp>(kForwardName))
    return CompilerPhase::Import;
  if (auto gradient = module.lookupSymbol<func::FuncOp>(kGradientName)) {
    // An imported backward pass has no ops that mark saved values.
    bool isDerived =
        gradient.walk([](SaveOp) { return WalkResult::interrupt(); })
            .wasInterrupted();
    return isDerived ? CompilerPhase::Autodiff : CompilerPhase::Import;
  }
  if (module.lookupSymbol<func::FuncOp>(kStepName) &&
      !module->hasAttr(kPolicyAttr))
    return CompilerPhase::Optimizer;
  return std::nullopt;
}
