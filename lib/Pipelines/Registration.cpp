//===- Registration.cpp - Registration of dialects and passes -------------===//

#include "binade/Autodiff/Passes.h"
#include "binade/Codegen/Passes.h"
#include "binade/Kernels/Passes.h"
#include "binade/Monitor/Passes.h"
#include "binade/Optimizer/Passes.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Pipelines/Target.h"
#include "binade/Precision/Passes.h"
#include "binade/Programs/Passes.h"
#include "binade/Raising/Passes.h"
#include "binade/Target/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::binade;

void mlir::binade::registerAllDialects(DialectRegistry &registry) {
  registry.insert<BinadeDialect, arith::ArithDialect, cf::ControlFlowDialect,
                  func::FuncDialect, gpu::GPUDialect, math::MathDialect,
                  memref::MemRefDialect, nvgpu::NVGPUDialect, scf::SCFDialect,
                  vector::VectorDialect>();
  // These add the LLVM and NVVM dialects, whose headers take seconds to
  // compile.
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

DialectRegistry mlir::binade::makeRegistry() {
  DialectRegistry registry;
  registerAllDialects(registry);
  return registry;
}

void mlir::binade::registerAllPasses() {
  registerAutodiffPasses();
  registerCodegenPasses();
  registerKernelsPasses();
  registerMonitorPasses();
  registerOptimizerPasses();
  registerPrecisionPasses();
  registerProgramsPasses();
  registerRaisingPasses();
  registerTargetPasses();
  registerTransformsPasses();
}

namespace {
struct ImportPipelineOptions : PassPipelineOptions<ImportPipelineOptions> {};

struct AutodiffPipelineOptions : PassPipelineOptions<AutodiffPipelineOptions> {
  Option<bool> stableEmbedding{
      *this, "stable-embedding",
      llvm::cl::desc("insert a layer norm after each embedding lookup")};
};

struct OptimizerPipelineOptions
    : PassPipelineOptions<OptimizerPipelineOptions> {
  Option<std::string> optimizer{
      *this, "optimizer",
      llvm::cl::desc(
          "name of an optimizer that Binade ships, or path of a rule file")};
  ListOption<std::string> settings{
      *this, "settings",
      llvm::cl::desc("hyper-parameters of all parameters, each as KEY=VALUE")};
  ListOption<std::string> groups{
      *this, "group",
      llvm::cl::desc("hyper-parameters of the parameters whose names match, "
                     "each as GLOB:KEY=VALUE;KEY=VALUE")};
  Option<std::string> decay{
      *this, "decay",
      llvm::cl::desc("which parameters have weight decay: all, or matrices"),
      llvm::cl::init("all")};
  Option<double> clip{
      *this, "clip",
      llvm::cl::desc("largest global norm of the gradients; 0 for no clipping"),
      llvm::cl::init(0.0)};
};

struct AssignPipelineOptions : PassPipelineOptions<AssignPipelineOptions> {
  Option<std::string> policy{
      *this, "policy",
      llvm::cl::desc(
          "name of a policy that Binade ships, or path of a policy file"),
      llvm::cl::init("fp32")};
  Option<std::string> ranges{
      *this, "ranges",
      llvm::cl::desc("file of the ranges that 'binade train --record' wrote")};
  ListOption<std::string> states{
      *this, "states",
      llvm::cl::desc(
          "formats of optimizer states, each as FORMAT or GLOB:FORMAT")};
};

struct MaterializePipelineOptions
    : PassPipelineOptions<MaterializePipelineOptions> {
  Option<std::string> budget{
      *this, "budget",
      llvm::cl::desc("memory limit of the values saved for backward, such as "
                     "24MiB, or 60% of their size without a limit")};
  Option<bool> recomputesMatmuls{
      *this, "recompute-matmuls",
      llvm::cl::desc("to meet the budget, also recompute values that need a "
                     "matmul or a convolution"),
      llvm::cl::init(false)};
};

struct ProgramsPipelineOptions : PassPipelineOptions<ProgramsPipelineOptions> {
  Option<int64_t> batches{
      *this, "batches",
      llvm::cl::desc("number of batches whose gradients one update averages"),
      llvm::cl::init(1)};
  Option<bool> inMomentum{
      *this, "in-momentum",
      llvm::cl::desc(
          "accumulate the gradients of the batches in the optimizer states")};
  Option<std::string> exchange{
      *this, "exchange",
      llvm::cl::desc("format in which the ranks of a group exchange gradients: "
                     "f32, bf16, e4m3, exact or policy; empty for no group")};
  ListOption<std::string> metrics{
      *this, "metrics",
      llvm::cl::desc("metrics of held-out samples that '@evaluate' computes "
                     "next to the loss: accuracy, topK, perplexity")};
};

struct KernelsPipelineOptions : PassPipelineOptions<KernelsPipelineOptions> {
  Option<std::string> target{
      *this, "target",
      llvm::cl::desc(
          "GPU to compile for, such as cuda:sm_90; empty for the CPU")};
  Option<bool> releaseGradients{
      *this, "release-gradients",
      llvm::cl::desc("update each parameter as soon as its gradient is "
                     "complete, which frees the gradient's memory")};
};

struct MonitorPipelineOptions : PassPipelineOptions<MonitorPipelineOptions> {
  Option<std::string> statistics{
      *this, "statistics",
      llvm::cl::desc("statistics to record, joined by '|': amax, smallest, "
                     "zeros, nonfinite, exponents")};
  Option<std::string> watch{
      *this, "watch",
      llvm::cl::desc("statistics of values to compute, such as "
                     "'gradient:absmax,zeros@every=10'")};
};
} // namespace

static std::string getPipelineName(CompilerPhase phase) {
  return ("binade-" + getName(phase) + "-pipeline").str();
}

static std::string getSummary(CompilerPhase phase) {
  return "Run phase '" + getName(phase).str() + "', whose result is: " +
         getPhases()[static_cast<unsigned>(phase)].summary.str();
}

/// Registers the pipeline of a phase; `fill` converts its options to those of
/// the driver.
template <typename Options>
static void registerWith(CompilerPhase phase,
                         void (*fill)(CompileOptions &, const Options &)) {
  PassPipelineRegistration<Options>(
      getPipelineName(phase), getSummary(phase),
      [phase, fill](OpPassManager &pm, const Options &parsed) {
        CompileOptions options;
        fill(options, parsed);
        buildPipeline(pm, phase, options);
      });
}

void mlir::binade::registerPipelines() {
  registerConversionPipeline();
  for (const TargetKind &kind : getTargetKinds())
    if (kind.registerPipelines)
      kind.registerPipelines();
  registerWith<ImportPipelineOptions>(
      CompilerPhase::Import,
      [](CompileOptions &, const ImportPipelineOptions &) {});
  registerWith<AutodiffPipelineOptions>(
      CompilerPhase::Autodiff,
      [](CompileOptions &options, const AutodiffPipelineOptions &parsed) {
        options.stableEmbedding = parsed.stableEmbedding;
      });
  registerWith<OptimizerPipelineOptions>(
      CompilerPhase::Optimizer,
      [](CompileOptions &options, const OptimizerPipelineOptions &parsed) {
        options.optimizer = parsed.optimizer;
        options.settings.assign(parsed.settings.begin(), parsed.settings.end());
        options.groups.assign(parsed.groups.begin(), parsed.groups.end());
        options.decay = parsed.decay;
        options.clip = parsed.clip;
      });
  registerWith<AssignPipelineOptions>(
      CompilerPhase::Assign,
      [](CompileOptions &options, const AssignPipelineOptions &parsed) {
        options.policy = parsed.policy;
        options.ranges = parsed.ranges;
        options.states.assign(parsed.states.begin(), parsed.states.end());
      });
  registerWith<MaterializePipelineOptions>(
      CompilerPhase::Materialize,
      [](CompileOptions &options, const MaterializePipelineOptions &parsed) {
        options.budget = parsed.budget;
        options.recomputesMatmuls = parsed.recomputesMatmuls;
      });
  registerWith<ProgramsPipelineOptions>(
      CompilerPhase::Programs,
      [](CompileOptions &options, const ProgramsPipelineOptions &parsed) {
        options.batches = parsed.batches;
        options.accumulateInMomentum = parsed.inMomentum;
        options.exchange = parsed.exchange;
        options.metrics.assign(parsed.metrics.begin(), parsed.metrics.end());
      });
  registerWith<KernelsPipelineOptions>(
      CompilerPhase::Kernels,
      [](CompileOptions &options, const KernelsPipelineOptions &parsed) {
        options.target = parsed.target;
        options.releaseGradients = parsed.releaseGradients;
      });
  registerWith<MonitorPipelineOptions>(
      CompilerPhase::Monitor,
      [](CompileOptions &options, const MonitorPipelineOptions &parsed) {
        options.statistics = parsed.statistics;
        if (!parsed.watch.empty())
          options.watch = {parsed.watch};
      });
}
