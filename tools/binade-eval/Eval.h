//===- Eval.h - one run of the command `eval` -------------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_EVAL_EVAL_H
#define BINADE_TOOLS_BINADE_EVAL_EVAL_H

#include "binade/Container/Error.h"

/// What the command line says.
struct EvalOptions {
  std::string module, function, inputs, out, bounds, results;
  std::string backend = "reference";
  bool check = false;
};

/// The exit code, 0 or 1, or what went wrong.
binade::Result<int> runEval(const EvalOptions &options);

#endif // BINADE_TOOLS_BINADE_EVAL_EVAL_H
