//===- EmitObject.cpp - object code of one module -------------------------===//

#include "EmitObject.h"
#include "binade/Conversion/Passes.h"
#include "binade/IR/Binade.h"
#include "binade/IR/Interface.h"
#include "binade/Target/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// MLIR
//===----------------------------------------------------------------------===//

static DialectRegistry getRegistry() {
  DialectRegistry registry;
  registry.insert<BinadeDialect, func::FuncDialect, arith::ArithDialect,
                  math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                  vector::VectorDialect, LLVM::LLVMDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  return registry;
}

/// Replaces kernels by their code in the LLVM dialect.
static FailureOr<SmallVector<KernelInfo>> lower(ModuleOp module) {
  SmallVector<KernelInfo> infos;
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  for (func::FuncOp function : functions) {
    if (!function->hasAttr(kKernelAttr))
      continue;
    FailureOr<KernelInfo> info = emitKernel(function, module);
    if (failed(info))
      return failure();
    infos.push_back(std::move(*info));
  }
  for (func::FuncOp function : functions)
    function.erase();
  for (auto optimizer :
       llvm::make_early_inc_range(module.getOps<OptimizerOp>()))
    optimizer.erase();
  PassManager passes(module.getContext());
  passes.enableVerifier(false);
  buildConversionPipeline(passes);
  buildTargetCpuPipeline(passes);
  if (failed(passes.run(module)))
    return failure();
  return infos;
}

//===----------------------------------------------------------------------===//
// LLVM
//===----------------------------------------------------------------------===//

static std::unique_ptr<llvm::TargetMachine> createTarget(CpuLevel level) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  assert(target && "LLVM was built without its x86 target");
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, getName(level), "", llvm::TargetOptions(), llvm::Reloc::PIC_,
      std::nullopt, llvm::CodeGenOptLevel::Default));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &target) {
  // Loops are vector loops already.
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopInterleaving = false;
  tuning.LoopUnrolling = false;
  llvm::PassBuilder builder(&target, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(module, modules);
}

static std::string generate(llvm::Module &module, llvm::TargetMachine &target,
                            CpuOutput output) {
  SmallString<0> code;
  llvm::raw_svector_ostream stream(code);
  if (output == CpuOutput::LLVM) {
    module.print(stream, nullptr);
  } else {
    llvm::legacy::PassManager passes;
    target.addPassesToEmitFile(passes, stream, nullptr,
                               output == CpuOutput::Object
                                   ? llvm::CodeGenFileType::ObjectFile
                                   : llvm::CodeGenFileType::AssemblyFile);
    passes.run(module);
  }
  return code.str().str();
}

static FailureOr<EmittedCode> emitModule(ModuleOp module, CpuLevel level,
                                         CpuOutput output) {
  FailureOr<SmallVector<KernelInfo>> infos = lower(module);
  if (failed(infos))
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(module, context, "kernel");
  if (!code)
    return failure();
  std::unique_ptr<llvm::TargetMachine> target = createTarget(level);
  code->setDataLayout(target->createDataLayout());
  code->setTargetTriple(target->getTargetTriple());
  for (llvm::Function &function : *code) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", getName(level));
    function.addFnAttr("prefer-vector-width",
                       level == CpuLevel::V4 ? "512" : "256");
    function.addFnAttr("no-trapping-math", "true");
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  optimize(*code, *target);
  return EmittedCode{generate(*code, *target, output), std::move(*infos)};
}

FailureOr<EmittedCode> mlir::binade::emitCode(StringRef text, CpuLevel level,
                                              CpuOutput output,
                                              std::string &errors) {
  static const DialectRegistry registry = getRegistry();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  ScopedDiagnosticHandler collect(&context, [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream(errors) << diagnostic.str() << "\n";
  });
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, ParserConfig(&context, false));
  if (!module)
    return failure();
  return emitModule(*module, level, output);
}
