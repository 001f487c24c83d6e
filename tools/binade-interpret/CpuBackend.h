//===- CpuBackend.h - Compile a function, run it on the CPU -----*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_INTERPRET_CPUBACKEND_H
#define BINADE_TOOLS_BINADE_INTERPRET_CPUBACKEND_H

#include "binade/Container/Error.h"
#include "binade/Reference/Interpreter.h"

/// Compiles `function` for this CPU and runs it on `inputs`, which must contain
/// every argument with its type. Reads external data from `directory`.
binade::Result<mlir::binade::NamedTensors>
evaluateOnCpu(mlir::ModuleOp module, llvm::StringRef function,
              const mlir::binade::NamedTensors &inputs,
              llvm::StringRef directory);

#endif // BINADE_TOOLS_BINADE_INTERPRET_CPUBACKEND_H
