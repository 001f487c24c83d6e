//===- NumericGuard.h - Steps whose numbers are not finite ------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_NUMERICGUARD_H
#define BINADE_LIB_RUNTIME_TRAINING_NUMERICGUARD_H

#include "../Execution/StateCopy.h"
#include "NonFiniteLoss.h"
#include "binade/Runtime/Training.h"

namespace binade {

/// Decides whether a run goes on after steps that are not finite, and says what
/// went wrong where it does not.
class NumericGuard {
public:
  NumericGuard(Program &program, const TrainOptions &options);

  /// What program and options have to have in common.
  Result<void> check() const;

  /// Keeps what a step changes even when it is skipped, if it may be the last
  /// one: running statistics, the generator's state, and the loss scale.
  void keep(std::int64_t skippedInRow);

  /// Looks at the loss of a batch, of the run's number `batch` from 1 on, which
  /// `feed` gave last.
  void observeLoss(std::int64_t batch, double loss, const BatchFeed &feed);

  /// The reason to end after a step, whose last batch `feed` gave last. What it
  /// leaves in `finalPath` is the last good state. Warns where the run goes on
  /// though the loss or the gradients are not finite.
  std::optional<Error> judge(const StepMetrics &metrics,
                             std::int64_t skippedInRow, const BatchFeed &feed,
                             const std::string &finalPath);

  /// Looks at all weights; warns of the first that are not finite. Returns
  /// whether all are finite.
  bool checkWeights(std::int64_t step);
  /// Warns at the end of a run of what is not finite, in words about the whole
  /// run. Returns whether all weights are finite.
  bool conclude(std::int64_t step, const std::string &finalPath);

  /// Once, where no scale of the loss is feasible.
  void warnInfeasible(const StepMetrics &metrics);

private:
  Error stop(const StepMetrics &metrics, const std::string &finalPath);
  Error stopSkipping(const StepMetrics &metrics, std::int64_t skippedInRow,
                     const BatchFeed &feed, const std::string &finalPath);
  void warnOfStep(const StepMetrics &metrics);
  bool hasScaler() const {
    return program.find(plan::Role::Scaler, "scale").has_value();
  }

  Program &program;
  const TrainOptions &options;
  OnNonFinite onNonFinite;
  /// Of the step that runs, the first.
  std::optional<NonFiniteLoss> badLoss;
  std::int64_t badLosses = 0;    ///< Steps of the run.
  bool wasNonFinite = false;     ///< The step before; it was warned of.
  bool hasWarnedWeights = false; ///< Of weights that are not finite.
  StateCopy kept;                ///< Of the step that runs, from before it.
  bool wasInfeasible = false;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_NUMERICGUARD_H
