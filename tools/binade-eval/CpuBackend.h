//===- CpuBackend.h - run a function as compiled code -----------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_EVAL_CPUBACKEND_H
#define BINADE_TOOLS_BINADE_EVAL_CPUBACKEND_H

#include "binade/Container/Error.h"
#include "binade/Reference/Interpreter.h"

/// Compiles `function` for this CPU and runs it on `inputs`, which are complete
/// and fit its arguments. External data are sought in `directory`.
binade::Result<mlir::binade::NamedTensors>
evaluateOnCpu(mlir::ModuleOp module, llvm::StringRef function,
              const mlir::binade::NamedTensors &inputs,
              llvm::StringRef directory);

#endif // BINADE_TOOLS_BINADE_EVAL_CPUBACKEND_H
