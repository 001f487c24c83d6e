//===- Interpret.h - Evaluate a function, check results --------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_INTERPRET_INTERPRET_H
#define BINADE_TOOLS_BINADE_INTERPRET_INTERPRET_H

#include "binade/Container/Error.h"

/// Values of the command-line options.
struct InterpretOptions {
  std::string module, function, inputs, out, bounds, results;
  std::string backend = "reference";
  bool check = false;
};

/// Returns exit code 0, or 1 if a result exceeds its bound, or an error.
binade::Result<int> interpret(const InterpretOptions &options);

#endif // BINADE_TOOLS_BINADE_INTERPRET_INTERPRET_H
