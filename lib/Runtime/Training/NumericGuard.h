//===- NumericGuard.h - Handling of non-finite steps ------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_NUMERICGUARD_H
#define BINADE_LIB_RUNTIME_TRAINING_NUMERICGUARD_H

#include "../Execution/StateCopy.h"
#include "NonFiniteLoss.h"
#include "binade/Runtime/Training.h"

namespace binade {

/// Decides whether a run continues after a step whose gradients or loss are not
/// finite. If not, it reports the cause.
class NumericGuard {
public:
  NumericGuard(Program &program, const TrainOptions &options);

  /// Checks that the program supports the options.
  Result<void> check() const;

  /// Copies what a step changes even if it is skipped (running statistics, the
  /// generator's state, the loss scale), if the run may stop at this step.
  void keep(std::int64_t skippedInRow);

  /// Checks the loss of the current batch of `feed`, which is batch `batch` of
  /// the run, counted from 1.
  void observeLoss(std::int64_t batch, double loss, const BatchFeed &feed);

  /// Returns an error if training has to stop after a step, and then saves the
  /// last good state to `finalPath`. Otherwise warns if the loss or the
  /// gradients are not finite. `feed` is at the last batch of the step.
  std::optional<Error> judge(const StepMetrics &metrics,
                             std::int64_t skippedInRow, const BatchFeed &feed,
                             const std::string &finalPath);

  /// Returns whether all weights are finite; warns the first time they are not.
  bool checkWeights(std::int64_t step);
  /// Warns at the end of a run about non-finite losses and weights. Returns
  /// whether all weights are finite.
  bool conclude(std::int64_t step, const std::string &finalPath);

  /// Warns once if no loss scale is feasible.
  void warnInfeasible(const StepMetrics &metrics);

private:
  std::string describeLoss(const StepMetrics &metrics) const;
  Error stopApplied(const StepMetrics &metrics);
  Error stop(const StepMetrics &metrics, const std::string &finalPath);
  Error stopSkipping(const StepMetrics &metrics, std::int64_t skippedInRow,
                     const BatchFeed &feed, const std::string &finalPath);
  void warnOfStep(const StepMetrics &metrics);
  void observeApplied(const StepMetrics &metrics);
  std::optional<std::string> explainDivergence() const;
  bool hasScaler() const {
    return program.find(plan::Role::Scaler, "scale").has_value();
  }

  Program &program;
  const TrainOptions &options;
  OnNonFinite onNonFinite;
  /// The first batch of the current step whose loss is not finite.
  std::optional<NonFiniteLoss> badLoss;
  std::int64_t badLosses = 0; ///< Steps of the run with such a batch.
  struct Applied {
    std::int64_t step;
    double loss;
  };
  /// The applied step with the lowest loss of the run, and the last applied
  /// one.
  std::optional<Applied> lowest, last;
  bool wasNonFinite = false; ///< Whether the previous step was not finite.
  bool hasWarnedWeights = false;
  StateCopy kept; ///< The state before the current step.
  bool wasInfeasible = false;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_NUMERICGUARD_H
