//===- CpuBackend.h - run a function as compiled code -----------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_EVAL_CPUBACKEND_H
#define BINADE_TOOLS_BINADE_EVAL_CPUBACKEND_H

#include "binade/Reference/RunEval.h"

/// Compiles `function` for this CPU and runs it on `inputs`.
binade::Result<mlir::binade::NamedTensors>
evaluateOnCpu(mlir::ModuleOp module, llvm::StringRef function,
              const mlir::binade::NamedTensors &inputs);

#endif // BINADE_TOOLS_BINADE_EVAL_CPUBACKEND_H
