//===- EmitObject.cpp - Code of one kernel for CPUs -----------------------===//

#include "EmitObject.h"
#include "../CodeGeneration.h"
#include "../KernelJobs.h"
#include "binade/Codegen/Passes.h"
#include "binade/IR/Binade.h"
#include "binade/IR/Interface.h"
#include "binade/Target/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm-c/Target.h"
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
                  vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  // Adds the LLVM dialect too.
  registerLLVMDialectTranslation(registry);
  return registry;
}

static unsigned getVectorBits(CpuLevel level) {
  return level == CpuLevel::V4 ? 512 : 256;
}

/// Lowers the kernel of `module` to the LLVM dialect.
static FailureOr<KernelInfo> lower(ModuleOp module, CpuLevel level) {
  FailureOr<KernelInfo> info = replaceKernel(module, emitKernel);
  if (failed(info))
    return failure();
  PassManager passes(module.getContext());
  passes.enableVerifier(false);
  buildConversionPipeline(passes);
  passes.addPass(createLowerTableLookupsPass({getVectorBits(level)}));
  buildTargetCpuPipeline(passes);
  if (failed(passes.run(module)))
    return failure();
  return info;
}

//===----------------------------------------------------------------------===//
// LLVM
//===----------------------------------------------------------------------===//

static TargetMachine createTarget(CpuLevel level) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  return createTarget("x86_64-unknown-linux-gnu", getName(level), "",
                      LLVMCodeGenLevelDefault, LLVMRelocPIC);
}

/// Sets the CPU for which code is generated.
static void setLevel(llvm::Module &module, CpuLevel level) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", getName(level));
    function.addFnAttr("prefer-vector-width",
                       std::to_string(getVectorBits(level)));
    function.addFnAttr("no-trapping-math", "true");
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

static std::string generate(llvm::Module &module, LLVMTargetMachineRef machine,
                            CpuOutput output) {
  if (output == CpuOutput::LLVM) {
    std::string text;
    llvm::raw_string_ostream(text) << module;
    return text;
  }
  return emit(module, machine,
              output == CpuOutput::Object ? LLVMObjectFile : LLVMAssemblyFile);
}

static FailureOr<EmittedCode> emitModule(ModuleOp module, CpuLevel level,
                                         CpuOutput output) {
  FailureOr<KernelInfo> info = lower(module, level);
  if (failed(info))
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(module, context, "kernel");
  if (!code)
    return failure();
  TargetMachine machine = createTarget(level);
  setTarget(*code, machine.get());
  setLevel(*code, level);
  optimize(*code, machine.get());
  return EmittedCode{std::move(*info),
                     {generate(*code, machine.get(), output)}};
}

FailureOr<EmittedCode> mlir::binade::emitCode(StringRef text, CpuLevel level,
                                              CpuOutput output,
                                              std::string &errors) {
  static const DialectRegistry registry = getRegistry();
  FailureOr<EmittedCode> code = failure();
  (void)parseStandalone(text, registry, errors, [&](ModuleOp module) {
    code = emitModule(module, level, output);
    return LogicalResult(code);
  });
  return code;
}
