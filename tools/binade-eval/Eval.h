//===- Eval.h - Evaluate a function and check results -----------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_EVAL_EVAL_H
#define BINADE_TOOLS_BINADE_EVAL_EVAL_H

#include "binade/Container/Error.h"

/// Values of the command-line options.
struct EvalOptions {
  std::string module, function, inputs, out, bounds, results;
  std::string backend = "reference";
  bool check = false;
};

/// Returns exit code 0, or 1 if a result exceeds its bound, or an error.
binade::Result<int> runEval(const EvalOptions &options);

#endif // BINADE_TOOLS_BINADE_EVAL_EVAL_H
