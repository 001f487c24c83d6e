//===- Results.h - Results of other programs --------------------*- C++ -*-===//

#ifndef BINADE_LIB_PROGRAMS_RESULTS_H
#define BINADE_LIB_PROGRAMS_RESULTS_H

#include "binade/IR/AddPorts.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::binade {

/// Inserts a copy of `step` after it, with the same arguments, but without
/// initial values. `mapping` maps its values to those of the copy.
func::FuncOp copyStep(func::FuncOp step, StringRef name, IRMapping &mapping);

/// Removes the initial values of all arguments.
void removeInitialValues(func::FuncOp program);

/// Returns the step for a pass over several batches; null if there is nothing
/// to do. Emits an error if `batches` is less than 1.
FailureOr<func::FuncOp> findStepToAccumulate(ModuleOp module, int64_t batches);

/// Adds the program that accumulates the gradients of all but the last batch in
/// f32, and adds these sums to the gradients of `step`.
LogicalResult accumulateGradients(func::FuncOp step, int64_t batches);

/// Turns `function`, a copy of the step, into a program for all but the last
/// batch of a step. Its results are `results`, and the buffers and random
/// states that the forward pass updates.
void makeAccumulation(func::FuncOp function, SmallVector<NewResult> results,
                      int64_t batches);

/// Replaces the results of `function` by `results`, and erases ops and
/// arguments that are not needed for them.
void replaceResults(func::FuncOp function, ArrayRef<NewResult> results);

} // namespace mlir::binade

#endif // BINADE_LIB_PROGRAMS_RESULTS_H
