//===- RunEval.h - the command `eval` ---------------------------*- C++ -*-===//

#ifndef BINADE_REFERENCE_RUNEVAL_H
#define BINADE_REFERENCE_RUNEVAL_H

#include "binade/Container/Error.h"
#include "binade/Reference/Interpreter.h"

namespace mlir::binade {

/// Computes the outputs of a function elsewhere than in the reference. Inputs
/// have been checked against the arguments and completed.
using EvalBackend = std::function<::binade::Result<NamedTensors>(
    ModuleOp module, StringRef function, const NamedTensors &inputs)>;

/// Runs `binade eval` with the arguments of `main` and returns the exit code.
/// `backends` are those that `--backend` accepts besides `reference`.
int runEval(int argc, char **argv,
            const std::map<std::string, EvalBackend> &backends = {});

} // namespace mlir::binade

#endif // BINADE_REFERENCE_RUNEVAL_H
