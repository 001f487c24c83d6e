//===- Registration.cpp - Dialects and passes of all stations -------------===//

#include "binade/Autodiff/Passes.h"
#include "binade/Conversion/Passes.h"
#include "binade/Import/Passes.h"
#include "binade/Kernels/Passes.h"
#include "binade/Monitor/Passes.h"
#include "binade/Optimizer/Passes.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Precision/Passes.h"
#include "binade/Programs/Passes.h"
#include "binade/Target/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::binade;

void mlir::binade::registerAllDialects(DialectRegistry &registry) {
  registry.insert<BinadeDialect, arith::ArithDialect, func::FuncDialect,
                  math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                  vector::VectorDialect>();
  // Adds the LLVM dialect, whose own header takes seconds to compile.
  registerLLVMDialectTranslation(registry);
}

void mlir::binade::registerAllPasses() {
  registerAutodiffPasses();
  registerConversionPasses();
  registerImportPasses();
  registerKernelsPasses();
  registerMonitorPasses();
  registerOptimizerPasses();
  registerPrecisionPasses();
  registerProgramsPasses();
  registerTargetPasses();
  registerTransformsPasses();
}

namespace {
struct AutodiffPipelineOptions : PassPipelineOptions<AutodiffPipelineOptions> {
  Option<bool> stableEmbedding{
      *this, "stable-embedding",
      llvm::cl::desc("a layer norm behind embeddings")};
};

struct OptimizerPipelineOptions
    : PassPipelineOptions<OptimizerPipelineOptions> {
  Option<std::string> optimizer{*this, "optimizer",
                                llvm::cl::desc("rule or rule file"),
                                llvm::cl::init("adamw")};
  ListOption<std::string> settings{*this, "settings",
                                   llvm::cl::desc("key=value, ...")};
  ListOption<std::string> groups{*this, "group",
                                 llvm::cl::desc("GLOB:key=value;..., ...")};
  Option<double> clip{*this, "clip", llvm::cl::desc("largest gradient norm"),
                      llvm::cl::init(0.0)};
};

struct AssignPipelineOptions : PassPipelineOptions<AssignPipelineOptions> {
  Option<std::string> policy{*this, "policy",
                             llvm::cl::desc("policy or policy file"),
                             llvm::cl::init("fp32")};
  Option<std::string> ranges{*this, "ranges",
                             llvm::cl::desc("ranges that a run recorded")};
  ListOption<std::string> states{*this, "states",
                                 llvm::cl::desc("FORMAT or GLOB:FORMAT, ...")};
};

struct MaterializePipelineOptions
    : PassPipelineOptions<MaterializePipelineOptions> {
  Option<std::string> budget{
      *this, "budget",
      llvm::cl::desc("what may wait for the backward part: 24MiB or 60%")};
};

struct ProgramsPipelineOptions : PassPipelineOptions<ProgramsPipelineOptions> {
  Option<int64_t> batches{*this, "batches",
                          llvm::cl::desc("whose gradients one update averages"),
                          llvm::cl::init(1)};
  Option<bool> inMomentum{
      *this, "in-momentum",
      llvm::cl::desc("the optimizer's states take them in")};
};

struct MonitorPipelineOptions : PassPipelineOptions<MonitorPipelineOptions> {
  Option<std::string> statistics{
      *this, "statistics", llvm::cl::desc("what to count: amax|zeros|...")};
};
} // namespace

static std::string getPipelineName(CompilerPhase phase) {
  return ("binade-" + getName(phase) + "-pipeline").str();
}

static std::string getSummary(CompilerPhase phase) {
  return getPhases()[static_cast<unsigned>(phase)].summary.str();
}

static void registerPlain(CompilerPhase phase) {
  PassPipelineRegistration<>(getPipelineName(phase), getSummary(phase),
                             [phase](OpPassManager &pm) {
                               buildPipeline(pm, phase, CompileOptions());
                             });
}

void mlir::binade::registerPipelines() {
  registerConversionPipeline();
  registerTargetCpuPipeline();
  PassPipelineRegistration<AutodiffPipelineOptions>(
      getPipelineName(CompilerPhase::Autodiff),
      getSummary(CompilerPhase::Autodiff),
      [](OpPassManager &pm, const AutodiffPipelineOptions &parsed) {
        CompileOptions options;
        options.stableEmbedding = parsed.stableEmbedding;
        buildPipeline(pm, CompilerPhase::Autodiff, options);
      });
  registerPlain(CompilerPhase::Kernels);
  PassPipelineRegistration<OptimizerPipelineOptions>(
      getPipelineName(CompilerPhase::Optimizer),
      getSummary(CompilerPhase::Optimizer),
      [](OpPassManager &pm, const OptimizerPipelineOptions &parsed) {
        CompileOptions options;
        options.optimizer = parsed.optimizer;
        options.settings.assign(parsed.settings.begin(), parsed.settings.end());
        options.groups.assign(parsed.groups.begin(), parsed.groups.end());
        options.clip = parsed.clip;
        buildPipeline(pm, CompilerPhase::Optimizer, options);
      });
  PassPipelineRegistration<AssignPipelineOptions>(
      getPipelineName(CompilerPhase::Assign), getSummary(CompilerPhase::Assign),
      [](OpPassManager &pm, const AssignPipelineOptions &parsed) {
        CompileOptions options;
        options.policy = parsed.policy;
        options.ranges = parsed.ranges;
        options.states.assign(parsed.states.begin(), parsed.states.end());
        buildPipeline(pm, CompilerPhase::Assign, options);
      });
  PassPipelineRegistration<MaterializePipelineOptions>(
      getPipelineName(CompilerPhase::Materialize),
      getSummary(CompilerPhase::Materialize),
      [](OpPassManager &pm, const MaterializePipelineOptions &parsed) {
        CompileOptions options;
        options.budget = parsed.budget;
        buildPipeline(pm, CompilerPhase::Materialize, options);
      });
  PassPipelineRegistration<ProgramsPipelineOptions>(
      getPipelineName(CompilerPhase::Programs),
      getSummary(CompilerPhase::Programs),
      [](OpPassManager &pm, const ProgramsPipelineOptions &parsed) {
        CompileOptions options;
        options.batches = parsed.batches;
        options.accumulateInMomentum = parsed.inMomentum;
        buildPipeline(pm, CompilerPhase::Programs, options);
      });
  PassPipelineRegistration<MonitorPipelineOptions>(
      getPipelineName(CompilerPhase::Monitor),
      getSummary(CompilerPhase::Monitor),
      [](OpPassManager &pm, const MonitorPipelineOptions &parsed) {
        CompileOptions options;
        options.statistics = parsed.statistics;
        buildPipeline(pm, CompilerPhase::Monitor, options);
      });
}
