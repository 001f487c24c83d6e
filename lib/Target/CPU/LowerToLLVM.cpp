//===- LowerToLLVM.cpp - Lowering of loops to the LLVM dialect ------------===//

#include "binade/Target/Passes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void mlir::binade::buildTargetCpuPipeline(OpPassManager &passes) {
  passes.addPass(createBitcastNarrowFloatsPass());
  passes.addPass(createLowerTransposesPass());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createFinalizeMemRefToLLVMConversionPass());
  passes.addPass(createArithToLLVMConversionPass());
  // Functions without an LLVM intrinsic become calls of libm. These are only
  // functions of f64, because those of f32 were expanded before.
  ConvertMathToLLVMPassOptions math;
  math.approximateLog1p = false;
  passes.addPass(createConvertMathToLLVMPass(math));
  passes.addPass(createConvertMathToLibmPass());
  ConvertFuncToLLVMPassOptions function;
  function.useBarePtrCallConv = true;
  passes.addPass(createConvertFuncToLLVMPass(function));
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  passes.addPass(createAddEntryPointsPass());
}

void mlir::binade::registerTargetCpuPipeline() {
  PassPipelineRegistration<>("binade-target-cpu-pipeline",
                             "Lower loops over memory to the LLVM "
                             "dialect, with entry points",
                             buildTargetCpuPipeline);
}
