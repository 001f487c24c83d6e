//===- CodeGeneration.h - Code generation by LLVM ---------------*- C++ -*-===//
//
// Uses LLVM's C interface, because the C++ headers take seconds to compile.
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

/// Returns a machine of `triple`, which must name an initialized target of
/// LLVM.
TargetMachine createTarget(const char *triple, StringRef cpu,
                           StringRef features, LLVMCodeGenOptLevel level,
                           LLVMRelocMode relocation);

/// Sets the data layout and the triple of `module` to those of `machine`.
void setTarget(llvm::Module &module, LLVMTargetMachineRef machine);

/// Optimizes `module`, without vectorizing or unrolling loops, which emission
/// has done where it helps.
void optimize(llvm::Module &module, LLVMTargetMachineRef machine);

/// Returns an object or assembly.
std::string emit(llvm::Module &module, LLVMTargetMachineRef machine,
                 LLVMCodeGenFileType type);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CODEGENERATION_H
