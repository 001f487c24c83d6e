//===- StepRollback.h - The state before an unfinished step -----*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_STEPROLLBACK_H
#define BINADE_LIB_RUNTIME_TRAINING_STEPROLLBACK_H

#include "../Execution/StateCopy.h"

namespace binade {

/// Undoes the batches of a step that is not finished: restores what
/// accumulation changes, and forgets the sums of gradients. Running statistics
/// and the generator's state always change; parameters and optimizer states do
/// where the states take in the gradients of each batch.
class StepRollback {
public:
  explicit StepRollback(Program &program);

  /// Keeps a copy of what the batches of the next step may change.
  void capture() { copy.capture(); }
  /// Restores that copy.
  Result<void> rollBack();
  /// Size of the copy of parameters and states; 0 where they need none.
  std::uint64_t getBytesOfStates() const;

private:
  Program &program;
  StateCopy copy;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_STEPROLLBACK_H
