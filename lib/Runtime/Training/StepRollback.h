//===- StepRollback.h - Rollback of an interrupted step ---------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_STEPROLLBACK_H
#define BINADE_LIB_RUNTIME_TRAINING_STEPROLLBACK_H

#include "../Execution/StateCopy.h"

namespace binade {

/// Undoes the batches of an interrupted step: restores what accumulation
/// changes, and resets the accumulators. Accumulation changes running
/// statistics and the generator's state; if gradients are accumulated in the
/// optimizer states, it also changes parameters and states.
class StepRollback {
public:
  explicit StepRollback(Program &program);

  /// Copies what the batches of the next step may change.
  void capture() { copy.capture(); }
  /// Restores that copy.
  Result<void> rollBack();
  /// Returns the size of the copy of parameters and states; 0 without one.
  std::uint64_t getBytesOfStates() const;

private:
  Program &program;
  StateCopy copy;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_STEPROLLBACK_H
