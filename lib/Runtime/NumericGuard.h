//===- NumericGuard.h - Steps whose numbers are not finite ------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_NUMERICGUARD_H
#define BINADE_LIB_RUNTIME_NUMERICGUARD_H

#include "binade/Runtime/Training.h"

namespace binade {

/// Decides whether a run goes on after steps that are not finite, and says what
/// went wrong where it does not.
class NumericGuard {
public:
  NumericGuard(Program &program, const Data &data, const TrainOptions &options);

  /// What program and options have to have in common.
  Result<void> check() const;

  /// Keeps what a step changes even when it is skipped, if it may be the last
  /// one: running statistics, the generator's state, and the loss scale.
  void keep(std::int64_t skippedInRow);

  /// The reason to end after a step, whose last batch was `samples`. What it
  /// leaves in `finalPath` is the last good state.
  std::optional<Error> judge(const StepMetrics &metrics,
                             std::int64_t skippedInRow,
                             std::span<const std::uint64_t> samples,
                             const std::string &finalPath);

  /// Once, where no scale of the loss is feasible.
  void warnInfeasible(const StepMetrics &metrics);

private:
  Error stop(const StepMetrics &metrics, const std::string &finalPath);
  Error stopSkipping(const StepMetrics &metrics, std::int64_t skippedInRow,
                     std::span<const std::uint64_t> samples,
                     const std::string &finalPath);
  void restore() const;
  bool hasScaler() const {
    return program.find(plan::Role::Scaler, "scale").has_value();
  }

  Program &program;
  const Data &data;
  const TrainOptions &options;
  OnNonFinite onNonFinite;
  std::vector<std::pair<Tensor, std::vector<std::byte>>> kept;
  bool wasInfeasible = false;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_NUMERICGUARD_H
