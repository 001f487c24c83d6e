//===- CompileStep.cpp - Compilation from any phase to a bundle -----------===//

#include "binade/IR/Interface.h"
#include "binade/Pipelines/Emulation.h"
#include "binade/Pipelines/Fallbacks.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Plan/Bundle.h"
#include "binade/Precision/Summary.h"

using namespace mlir;
using namespace mlir::binade;

FailureOr<::binade::Bundle>
mlir::binade::compileStep(ModuleOp module, CompilerPhase from,
                          const CompileOptions &options,
                          const PhaseListener &listener) {
  PrecisionSummary summary;
  if (from <= CompilerPhase::Materialize) {
    if (failed(runPhases(module, from, CompilerPhase::Materialize, options,
                         listener)))
      return failure();
    from = CompilerPhase::Materialize;
    auto step = module.lookupSymbol<func::FuncOp>(kStepName);
    if (failed(reportEmulation(step, options.target, options.isStrict)))
      return failure();
    summary = summarizePrecision(step);
  }
  if (failed(
          runPhases(module, from, CompilerPhase::Kernels, options, listener)))
    return failure();
  if (from < CompilerPhase::Kernels && failed(reportFallbacks(module, options)))
    return failure();
  FailureOr<::binade::Bundle> bundle = compileBundle(module, options, listener);
  if (succeeded(bundle)) {
    bundle->plan.ops = std::move(summary.ops);
    bundle->plan.casts = std::move(summary.casts);
  }
  return bundle;
}
