//===- Results.h - what a program beside the step computes ------*- C++ -*-===//

#ifndef BINADE_LIB_PROGRAMS_RESULTS_H
#define BINADE_LIB_PROGRAMS_RESULTS_H

#include "binade/IR/AddPorts.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::binade {

/// A copy of `step` behind it, which has its arguments but no initial values.
/// `mapping` says what its values are there.
func::FuncOp copyStep(func::FuncOp step, StringRef name, IRMapping &mapping);

/// The step that a pass over several batches works on; null where there is
/// nothing to do. Fails if `batches` are no number of batches.
FailureOr<func::FuncOp> findStepToAccumulate(ModuleOp module, int64_t batches);

/// Makes a program for all but the last batch of a step out of `function`, a
/// copy of it: `results` and what the forward part keeps are its own.
void makeAccumulation(func::FuncOp function, SmallVector<NewResult> results,
                      int64_t batches);

/// Makes `results` those of `function`, instead of its own, and drops what
/// they do not need, arguments too.
void replaceResults(func::FuncOp function, ArrayRef<NewResult> results);

} // namespace mlir::binade

#endif // BINADE_LIB_PROGRAMS_RESULTS_H
