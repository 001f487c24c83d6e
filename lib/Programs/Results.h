//===- Results.h - what a program beside the step computes ------*- C++ -*-===//

#ifndef BINADE_LIB_PROGRAMS_RESULTS_H
#define BINADE_LIB_PROGRAMS_RESULTS_H

#include "binade/IR/AddPorts.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::binade {

/// A copy of `step` behind it, which has its arguments but no initial values.
/// `mapping` says what its values are there.
func::FuncOp copyStep(func::FuncOp step, StringRef name, IRMapping &mapping);

/// Makes `results` those of `function`, instead of its own, and drops what
/// they do not need, arguments too.
void replaceResults(func::FuncOp function, ArrayRef<NewResult> results);

} // namespace mlir::binade

#endif // BINADE_LIB_PROGRAMS_RESULTS_H
