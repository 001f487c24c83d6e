//===- CodeGeneration.h - LLVM's part of a target ---------------*- C++ -*-===//
//
// By its interface for C: the headers of the other take seconds.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_TARGET_CODEGENERATION_H
#define BINADE_LIB_TARGET_CODEGENERATION_H

#include "mlir/Support/LLVM.h"
#include "llvm-c/TargetMachine.h"
#include "llvm/IR/Module.h"
#include <memory>

namespace mlir::binade {

struct DisposeTargetMachine {
  void operator()(LLVMTargetMachineRef machine) const {
    LLVMDisposeTargetMachine(machine);
  }
};
using TargetMachine =
    std::unique_ptr<LLVMOpaqueTargetMachine, DisposeTargetMachine>;

/// A machine of `triple`, a target that LLVM has and that was initialized.
TargetMachine createTarget(const char *triple, StringRef cpu,
                           StringRef features, LLVMCodeGenOptLevel level,
                           LLVMRelocMode relocation);

/// Gives `module` the layout of data and the triple of `machine`.
void setTarget(llvm::Module &module, LLVMTargetMachineRef machine);

/// Loops are vector loops already, and unrolled where that helps.
void optimize(llvm::Module &module, LLVMTargetMachineRef machine);

/// An object or assembly.
std::string emit(llvm::Module &module, LLVMTargetMachineRef machine,
                 LLVMCodeGenFileType type);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CODEGENERATION_H
