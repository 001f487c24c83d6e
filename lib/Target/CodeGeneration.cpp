//===- CodeGeneration.cpp - Code generation by LLVM -----------------------===//

#include "CodeGeneration.h"
#include "llvm-c/Core.h"
#include "llvm-c/Transforms/PassBuilder.h"

using namespace mlir;
using namespace mlir::binade;

TargetMachine mlir::binade::createTarget(const char *triple, StringRef cpu,
                                         StringRef features,
                                         LLVMCodeGenOptLevel level,
                                         LLVMRelocMode relocation) {
  LLVMTargetRef target = nullptr;
  [[maybe_unused]] bool missing =
      LLVMGetTargetFromTriple(triple, &target, nullptr);
  assert(!missing && "LLVM was built without the target");
  return TargetMachine(LLVMCreateTargetMachine(
      target, triple, cpu.str().c_str(), features.str().c_str(), level,
      relocation, LLVMCodeModelDefault));
}

void mlir::binade::setTarget(llvm::Module &module,
                             LLVMTargetMachineRef machine) {
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(wrap(&module), layout);
  LLVMDisposeTargetData(layout);
  char *triple = LLVMGetTargetMachineTriple(machine);
  LLVMSetTarget(wrap(&module), triple);
  LLVMDisposeMessage(triple);
}

void mlir::binade::optimize(llvm::Module &module,
                            LLVMTargetMachineRef machine) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMPassBuilderOptionsSetLoopVectorization(options, false);
  LLVMPassBuilderOptionsSetSLPVectorization(options, false);
  LLVMPassBuilderOptionsSetLoopInterleaving(options, false);
  LLVMPassBuilderOptionsSetLoopUnrolling(options, false);
  [[maybe_unused]] LLVMErrorRef error =
      LLVMRunPasses(wrap(&module), "default<O2>", machine, options);
  assert(!error && "LLVM has no such pipeline");
  LLVMDisposePassBuilderOptions(options);
}

std::string mlir::binade::emit(llvm::Module &module,
                               LLVMTargetMachineRef machine,
                               LLVMCodeGenFileType type) {
  LLVMMemoryBufferRef buffer = nullptr;
  char *error = nullptr;
  [[maybe_unused]] bool failed = LLVMTargetMachineEmitToMemoryBuffer(
      machine, wrap(&module), type, &error, &buffer);
  assert(!failed && "LLVM must emit code for its targets");
  std::string code(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
  LLVMDisposeMemoryBuffer(buffer);
  return code;
}
