//===- Pipelines.cpp - The passes of each phase ---------------------------===//

#include "binade/Pipelines/Pipelines.h"
#include "PassReports.h"
#include "binade/Autodiff/Passes.h"
#include "binade/Container/Activity.h"
#include "binade/Kernels/Passes.h"
#include "binade/Monitor/Passes.h"
#include "binade/Optimizer/Passes.h"
#include "binade/Pipelines/AlarmRules.h"
#include "binade/Pipelines/Target.h"
#include "binade/Precision/Passes.h"
#include "binade/Programs/Passes.h"
#include "binade/Raising/Passes.h"
#include "binade/Target/Passes.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include <chrono>

using namespace mlir;
using namespace mlir::binade;

static void addCleanup(OpPassManager &pm) {
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

static void addOptimizer(OpPassManager &pm, const CompileOptions &options) {
  AppendOptimizerPassOptions append;
  append.optimizer = options.optimizer;
  append.settings.assign(options.settings.begin(), options.settings.end());
  append.groups.assign(options.groups.begin(), options.groups.end());
  append.decay = options.decay;
  append.clip = options.clip;
  append.onNonfinite = options.onNonfinite;
  if (options.onNonfinite.empty())
    append.onNonfinite = options.releaseGradients ? "continue" : "skip";
  append.keepGradients = options.keepGradients;
  append.keepOutputs = options.keepOutputs;
  pm.addPass(createAppendOptimizerPass(std::move(append)));
}

void mlir::binade::buildPipeline(OpPassManager &pm, CompilerPhase phase,
                                 const CompileOptions &options) {
  switch (phase) {
  case CompilerPhase::Import:
    pm.addPass(createSplitTrainingStepPass());
    pm.addPass(createMatchOptimizerRulesPass());
    pm.addPass(createRemoveImportedBackwardPass());
    pm.addPass(createRecognizeGradientsPass());
    // Without the backward pass, intermediate values of composites have no
    // other users.
    pm.addNestedPass<func::FuncOp>(
        createRecognizeCompositesPass({.afterRemovedBackward = true}));
    break;
  case CompilerPhase::Autodiff:
    if (options.stableEmbedding)
      pm.addPass(createStabilizeEmbeddingsPass());
    pm.addPass(createBuildGradientPass());
    pm.addPass(createFoldEmptyPass());
    addCleanup(pm);
    break;
  case CompilerPhase::Optimizer:
    addOptimizer(pm, options);
    pm.addPass(createFoldEmptyPass());
    addCleanup(pm);
    break;
  case CompilerPhase::Assign: {
    AssignPrecisionPassOptions assign;
    assign.policy = options.policy;
    assign.ranges = options.ranges;
    assign.states.assign(options.states.begin(), options.states.end());
    pm.addPass(createAssignPrecisionPass(std::move(assign)));
    break;
  }
  case CompilerPhase::Materialize:
    pm.addPass(createMaterializePrecisionPass());
    pm.addPass(createUseDelayedScalingPass());
    pm.addNestedPass<func::FuncOp>(createMoveCastsPass());
    pm.addPass(createSimplifyCastsPass());
    pm.addPass(createCSEPass());
    if (!options.budget.empty()) {
      pm.addPass(createDeduplicateSavesPass());
      pm.addPass(createRecomputePass());
      pm.addPass(createFitMemoryBudgetPass(
          {options.budget, options.recomputesMatmuls}));
    }
    break;
  case CompilerPhase::Programs: {
    if (options.accumulateInMomentum)
      pm.addPass(createAccumulateInMomentumPass({options.batches}));
    else if (options.exchange.empty())
      pm.addPass(createAccumulateGradientsPass({options.batches}));
    if (!options.exchange.empty())
      pm.addPass(
          createExchangeGradientsPass({options.exchange, options.batches, 0}));
    pm.addPass(createExtractEvaluationPass());
    pm.addPass(createHashComputationPass());
    if (!options.metrics.empty()) {
      AddEvaluationMetricsPassOptions add;
      add.metrics.assign(options.metrics.begin(), options.metrics.end());
      pm.addPass(createAddEvaluationMetricsPass(std::move(add)));
    }
    break;
  }
  case CompilerPhase::Monitor: {
    InsertStatisticsPassOptions insert;
    insert.statistics = options.statistics;
    pm.addPass(createInsertStatisticsPass(std::move(insert)));
    pm.addPass(createInsertRequestedStatisticsPass(
        {llvm::join(options.watch, ";"),
         llvm::join(options.watchForAlarms, ";")}));
    break;
  }
  case CompilerPhase::Kernels:
    if (options.target.empty())
      pm.addPass(createSetCpuTargetPass());
    else
      addTargetPasses(pm, options.target);
    pm.addPass(createFoldEmptyPass());
    pm.addPass(createDeduplicateSavesPass());
    pm.addPass(createRecomputeByCostsPass());
    pm.addPass(createRecomputePass());
    pm.addPass(createSumShardsPass());
    pm.addPass(createExpandCompositesPass());
    pm.addPass(createChooseLayoutsPass());
    addCleanup(pm);
    pm.addPass(createTileRowsPass());
    pm.addPass(createFuseMovementIntoTilesPass());
    pm.addPass(createWriteTransposedOperandsPass());
    pm.addPass(createFoldMovementIntoAttentionPass());
    pm.addPass(createSplitReductionsPass());
    pm.addPass(createHoistReshapesPass());
    pm.addPass(createFuseMovementIntoKernelsPass());
    pm.addPass(createRecomputeInReadersPass());
    if (options.releaseGradients)
      pm.addPass(createReleaseGradientsPass());
    pm.addPass(createFormKernelsPass());
    pm.addPass(createChooseAccuracyPass());
    pm.addPass(createBatchLaunchesPass());
    break;
  case CompilerPhase::Plan:
  case CompilerPhase::Target:
    break;
  }
}

/// Returns `options` with the statistics that alarms evaluate. Stores the alarm
/// requests in `module`, so that a later compilation from it has them.
static FailureOr<CompileOptions> addAlarms(ModuleOp module,
                                           CompileOptions options) {
  MLIRContext *context = module.getContext();
  FailureOr<AlarmRequests> words =
      findAlarmRequests(options, getAlarmRequests(module), context);
  if (failed(words))
    return failure();
  FailureOr<::binade::AlarmSettings> alarms = chooseAlarms(*words, context);
  if (failed(alarms))
    return failure();
  setAlarmRequests(module, *words);
  options.watchForAlarms = listRequests(alarms->rules);
  return options;
}

LogicalResult mlir::binade::runPhases(ModuleOp module, CompilerPhase from,
                                      CompilerPhase to,
                                      const CompileOptions &options,
                                      const PhaseListener &listener) {
  assert(to <= CompilerPhase::Kernels && "plan and target are not modules");
  for (const PhaseDescription &description : getPhases()) {
    if (description.phase <= from || description.phase > to)
      continue;
    auto start = std::chrono::steady_clock::now();
    ::binade::Activity activity("phase", description.name);
    PassManager pm(module.getContext());
    pm.addInstrumentation(std::make_unique<PassReports>(module.getContext()));
    if (description.phase == CompilerPhase::Monitor) {
      FailureOr<CompileOptions> watching = addAlarms(module, options);
      if (failed(watching))
        return failure();
      buildPipeline(pm, description.phase, *watching);
    } else {
      buildPipeline(pm, description.phase, options);
    }
    if (failed(pm.run(module)))
      return failure();
    std::chrono::duration<double> elapsed =
        std::chrono::steady_clock::now() - start;
    if (listener)
      listener(description.phase, elapsed.count());
  }
  return success();
}
