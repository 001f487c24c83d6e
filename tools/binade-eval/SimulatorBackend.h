//===- SimulatorBackend.h - run kernels of a GPU without one ----*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_EVAL_SIMULATORBACKEND_H
#define BINADE_TOOLS_BINADE_EVAL_SIMULATORBACKEND_H

#include "binade/Container/Error.h"
#include "binade/Reference/Interpreter.h"

/// Forms the kernels of `function`, emits them for a GPU, and runs those on
/// `inputs` in the simulator; what is no kernel is the reference's.
binade::Result<mlir::binade::NamedTensors>
evaluateOnSimulator(mlir::ModuleOp module, llvm::StringRef function,
                    const mlir::binade::NamedTensors &inputs,
                    const mlir::binade::EvaluationOptions &options);

#endif // BINADE_TOOLS_BINADE_EVAL_SIMULATORBACKEND_H
