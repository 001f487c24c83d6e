//===- SavedTensors.h - Files with the tensors of a step --------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_SAVEDTENSORS_H
#define BINADE_LIB_RUNTIME_TRAINING_SAVEDTENSORS_H

#include "binade/Runtime/Training.h"

namespace binade {

/// Writes the gradients of the step with these metrics to `run`/grads-STEP, as
/// the update reads them, before clipping: in f32, unscaled, averaged over the
/// batches.
Result<void> saveGradients(const std::string &run, const Program &program,
                           const StepMetrics &metrics);

/// Writes the inputs of a step to the file `path`.
Result<void> saveInputs(const std::string &path, const Program &program,
                        std::int64_t step);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_SAVEDTENSORS_H
