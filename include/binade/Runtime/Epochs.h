//===- Epochs.h - The length of a run in epochs -----------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_EPOCHS_H
#define BINADE_RUNTIME_EPOCHS_H

#include "binade/Runtime/Training.h"

namespace binade {

/// Sets `options.steps` to the number of whole steps that `options.epochs`
/// passes over the training samples of `data` fill, and notifies of it. Samples
/// that `options` hold out are not trained on. Returns an error if a step needs
/// more samples than there are.
Result<void> countSteps(Program &program, const Data &data,
                        TrainOptions &options);

} // namespace binade

#endif // BINADE_RUNTIME_EPOCHS_H
