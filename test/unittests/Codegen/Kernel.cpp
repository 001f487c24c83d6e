//===- Kernel.cpp - One operation, compiled for this machine --------------===//

#include "Kernel.h"

#include "binade/Codegen/Passes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm-c/Core.h"
#include "llvm-c/Error.h"
#include "llvm-c/LLJIT.h"
#include "llvm-c/Target.h"
#include "llvm-c/TargetMachine.h"
#include "llvm-c/Transforms/PassBuilder.h"
#include "llvm/IR/Module.h"

using namespace binade::test;
using namespace mlir;

static void replaceAll(std::string &text, StringRef what, StringRef with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos;
       at += with.size())
    text.replace(at, what.size(), with);
}

/// Returns MLIR text of a loop over the arrays whose body is `op`.
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

/// Expands the operation and lowers the rest by upstream's passes.
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

static void check(LLVMErrorRef error) {
  if (error)
    llvm::report_fatal_error(LLVMGetErrorMessage(error));
}

/// Creates the target machine for `cpu`, or for the host if it is empty.
static LLVMTargetMachineRef createMachine(const std::string &cpu) {
  LLVMInitializeNativeTarget();
  LLVMInitializeNativeAsmPrinter();
  char *triple = LLVMGetDefaultTargetTriple();
  LLVMTargetRef target;
  if (LLVMGetTargetFromTriple(triple, &target, nullptr))
    llvm::report_fatal_error("LLVM has no code for this machine");
  char *host = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
  LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
      target, triple, cpu.empty() ? host : cpu.c_str(),
      cpu.empty() ? features : "", LLVMCodeGenLevelDefault, LLVMRelocPIC,
      LLVMCodeModelJITDefault);
  for (char *text : {triple, host, features})
    LLVMDisposeMessage(text);
  return machine;
}

static void optimize(LLVMModuleRef module, LLVMTargetMachineRef machine) {
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(module, layout);
  LLVMDisposeTargetData(layout);
  char *triple = LLVMGetTargetMachineTriple(machine);
  LLVMSetTarget(module, triple);
  LLVMDisposeMessage(triple);
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  check(LLVMRunPasses(module, "default<O2>", machine, options));
  LLVMDisposePassBuilderOptions(options);
}

Kernel::Kernel(const std::string &op, const std::string &x,
               const std::string &r, const Variant &variant) {
  DialectRegistry registry;
  registry
      .insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
              memref::MemRefDialect, scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  // Adds the LLVM dialect, whose own header takes seconds to compile.
  registerLLVMDialectTranslation(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(loopText(op, x, r, variant.shape), &context);
  if (!module)
    llvm::report_fatal_error("the operation does not parse");
  lower(*module);

  llvm::LLVMContext llvmContext;
  LLVMTargetMachineRef machine = createMachine(variant.cpu);
  auto llvmModule = translateModuleToLLVMIR(*module, llvmContext);
  optimize(wrap(llvmModule.get()), machine);
  LLVMMemoryBufferRef object;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, wrap(llvmModule.get()),
                                          LLVMObjectFile, nullptr, &object))
    llvm::report_fatal_error("LLVM emits no object code");
  LLVMDisposeTargetMachine(machine);

  check(LLVMOrcCreateLLJIT(&jit, nullptr));
  check(
      LLVMOrcLLJITAddObjectFile(jit, LLVMOrcLLJITGetMainJITDylib(jit), object));
  LLVMOrcExecutorAddress address;
  check(LLVMOrcLLJITLookup(jit, &address, "run"));
  run = reinterpret_cast<void (*)(const void *, const void *, void *)>(address);
}

Kernel::~Kernel() { LLVMConsumeError(LLVMOrcDisposeLLJIT(jit)); }
