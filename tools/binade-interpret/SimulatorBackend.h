//===- SimulatorBackend.h - Run GPU kernels in the simulator ----*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_INTERPRET_SIMULATORBACKEND_H
#define BINADE_TOOLS_BINADE_INTERPRET_SIMULATORBACKEND_H

#include "binade/Container/Error.h"
#include "binade/Reference/Interpreter.h"

/// Forms the kernels of `function`, lowers them for a GPU and runs them on
/// `inputs` in the simulator. The reference evaluates all other ops.
binade::Result<mlir::binade::NamedTensors>
evaluateOnSimulator(mlir::ModuleOp module, llvm::StringRef function,
                    const mlir::binade::NamedTensors &inputs,
                    const mlir::binade::EvaluationOptions &options);

#endif // BINADE_TOOLS_BINADE_INTERPRET_SIMULATORBACKEND_H
