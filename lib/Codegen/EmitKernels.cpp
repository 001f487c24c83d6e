//===- EmitKernels.cpp - Passes that replace kernels by loops -------------===//

#include "binade/Codegen/EmitKernel.h"
#include "binade/Codegen/Passes.h"
#include "binade/IR/Interface.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_EMITGPUKERNELSPASS
#define GEN_PASS_DEF_EMITKERNELSPASS
#include "binade/Codegen/Passes.h.inc"

/// Erases the programs, whose launches are in the plan, and the optimizer
/// rules, whose formulas were inlined into the kernels.
static void eraseProgramsAndRules(ModuleOp module) {
  SmallVector<Operation *> others;
  for (Operation &op : module.getOps()) {
    if (auto function = dyn_cast<func::FuncOp>(op);
        function && !function.getOps<LaunchOp>().empty())
      others.push_back(function);
    if (auto rule = dyn_cast<OptimizerOp>(op)) {
      others.push_back(rule);
      for (StringRef suffix : {".scalars", ".update"})
        if (auto formula = module.lookupSymbol<func::FuncOp>(
                (rule.getSymName() + suffix).str()))
          others.push_back(formula);
    }
  }
  for (Operation *op : others)
    op->erase();
}

/// Replaces each kernel of `module` by the functions that `emit` adds for it.
static LogicalResult replaceKernels(
    ModuleOp module,
    function_ref<FailureOr<KernelInfo>(func::FuncOp, ModuleOp)> emit) {
  SmallVector<func::FuncOp> kernels;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(kKernelAttr))
      kernels.push_back(function);
  // Otherwise the ops of a step would be left, without their rules.
  if (kernels.empty() && module.lookupSymbol(kStepName))
    return emitError(module.getLoc())
           << "expected kernels, functions with '" << kKernelAttr
           << "'; run binade-kernels-pipeline first";
  for (func::FuncOp kernel : kernels)
    if (failed(emit(kernel, module)))
      return failure();
  for (func::FuncOp kernel : kernels)
    kernel.erase();
  eraseProgramsAndRules(module);
  return success();
}

namespace {
struct EmitKernelsPass : impl::EmitKernelsPassBase<EmitKernelsPass> {
  void runOnOperation() override {
    if (failed(replaceKernels(getOperation(), emitKernel)))
      signalPassFailure();
  }
};

struct EmitGpuKernelsPass : impl::EmitGpuKernelsPassBase<EmitGpuKernelsPass> {
  void runOnOperation() override {
    if (failed(replaceKernels(getOperation(), emitGpuKernel)))
      signalPassFailure();
  }
};
} // namespace

/// Adds passes that expand the arithmetic of emitted kernels. `instructions`
/// are the formats that the target casts from and to f32 itself.
static void addExpansions(OpPassManager &passes,
                          ArrayRef<std::string> instructions = {}) {
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createExpandMathPass());
  ExpandFloatCastsPassOptions casts;
  casts.keepFormats.assign(instructions.begin(), instructions.end());
  passes.addPass(createExpandFloatCastsPass(std::move(casts)));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
}

void buildConversionPipeline(OpPassManager &passes) {
  passes.addPass(createEmitKernelsPass());
  addExpansions(passes);
}

void buildGpuConversionPipeline(OpPassManager &passes) {
  passes.addPass(createEmitGpuKernelsPass());
  buildGpuExpansionPipeline(passes);
}

void buildGpuExpansionPipeline(OpPassManager &passes) {
  // The pipeline of each chip expands casts for which that chip has no
  // instruction.
  addExpansions(passes, {"bf16", "f8E4M3FN", "f8E5M2"});
}

void registerConversionPipeline() {
  PassPipelineRegistration<>("binade-conversion-pipeline",
                             "Lower kernels of binade ops to loops over memory",
                             buildConversionPipeline);
  PassPipelineRegistration<>(
      "binade-gpu-conversion-pipeline",
      "Lower kernels of binade ops to kernels of the gpu dialect",
      buildGpuConversionPipeline);
}
} // namespace mlir::binade
