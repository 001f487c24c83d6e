//===- Kernel.cpp - one operation, compiled for this machine --------------===//

#include "Kernel.h"

#include "binade/Conversion/Passes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/ExecutionEngine/Orc/ThreadSafeModule.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace binade::test;
using namespace mlir;

static void replaceAll(std::string &text, StringRef what, StringRef with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos;
       at += with.size())
    text.replace(at, what.size(), with);
}

/// A loop over the arrays whose body is the operation.
static std::string loopText(const std::string &op, const std::string &x,
                            const std::string &r, const std::string &shape) {
  int lanes = 1;
  for (StringRef rest = shape; !rest.empty();) {
    auto [extent, tail] = rest.split('x');
    lanes *= std::stoi(extent.str());
    rest = tail;
  }
  std::string text = R"(
func.func @run(%xs: memref<$sizex$ex>, %ys: memref<$sizex$ex>,
               %rs: memref<$sizex$er>) {
  %begin = arith.constant 0 : index
  %end = arith.constant $size : index
  %step = arith.constant $lanes : index
  scf.for %i = %begin to %end step %step {
)";
  if (shape.empty())
    text += R"(
    %x = memref.load %xs[%i] : memref<$sizex$ex>
    %y = memref.load %ys[%i] : memref<$sizex$ex>
    $op
    memref.store %r, %rs[%i] : memref<$sizex$er>)";
  else
    text += R"(
    %x1 = vector.load %xs[%i] : memref<$sizex$ex>, vector<$lanesx$ex>
    %y1 = vector.load %ys[%i] : memref<$sizex$ex>, vector<$lanesx$ex>
    %x = vector.shape_cast %x1 : vector<$lanesx$ex> to $x
    %y = vector.shape_cast %y1 : vector<$lanesx$ex> to $x
    $op
    %r1 = vector.shape_cast %r : $r to vector<$lanesx$er>
    vector.store %r1, %rs[%i] : memref<$sizex$er>, vector<$lanesx$er>)";
  text += "\n  }\n  return\n}\n";
  auto lane = [&](const std::string &element) {
    return shape.empty() ? element : "vector<" + shape + element + ">";
  };
  replaceAll(text, "$op", op);
  replaceAll(text, "$size", std::to_string(Kernel::size));
  replaceAll(text, "$lanes", std::to_string(lanes));
  replaceAll(text, "$ex", x);
  replaceAll(text, "$er", r);
  replaceAll(text, "$x", lane(x));
  replaceAll(text, "$r", lane(r));
  return text;
}

/// Expands the operation and lowers the rest the way of upstream.
static void lower(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.addPass(mlir::binade::createExpandMathPass());
  passes.addPass(mlir::binade::createExpandFloatCastsPass());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createUBToLLVMConversionPass());
  passes.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions options;
  options.useBarePtrCallConv = true;
  passes.addPass(createConvertFuncToLLVMPass(options));
  passes.addPass(createReconcileUnrealizedCastsPass());
  if (failed(passes.run(module)))
    llvm::report_fatal_error("the operation does not lower to LLVM");
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  module.setDataLayout(machine.createDataLayout());
  module.setTargetTriple(machine.getTargetTriple());
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(module, modules);
}

Kernel::Kernel(const std::string &op, const std::string &x,
               const std::string &r, const Variant &variant) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  DialectRegistry registry;
  registry
      .insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect,
              LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect,
              scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(loopText(op, x, r, variant.shape), &context);
  if (!module)
    llvm::report_fatal_error("the operation does not parse");
  lower(*module);

  auto target = cantFail(llvm::orc::JITTargetMachineBuilder::detectHost());
  if (!variant.cpu.empty()) {
    target.setCPU(variant.cpu);
    target.getFeatures() = llvm::SubtargetFeatures();
  }
  auto machine = cantFail(target.createTargetMachine());
  auto llvmContext = std::make_unique<llvm::LLVMContext>();
  auto llvmModule = translateModuleToLLVMIR(*module, *llvmContext);
  optimize(*llvmModule, *machine);
  jit = cantFail(
      llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(target).create());
  cantFail(jit->addIRModule({std::move(llvmModule), std::move(llvmContext)}));
  run = cantFail(jit->lookup("run"))
            .toPtr<void (*)(const void *, const void *, void *)>();
}

Kernel::~Kernel() = default;
