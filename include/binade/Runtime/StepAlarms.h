//===- StepAlarms.h - Alarms in user-defined training loops -----*- C++ -*-===//

#ifndef BINADE_RUNTIME_STEPALARMS_H
#define BINADE_RUNTIME_STEPALARMS_H

#include "binade/Runtime/Training.h"
#include <memory>

namespace binade {

/// Evaluates alarm rules after each step of a user-defined training loop.
/// `train` does this itself.
class StepAlarms {
public:
  /// `rules` have to be valid, as those that `chooseAlarms` returns.
  StepAlarms(const Program &program, const std::vector<AlarmRule> &rules);
  StepAlarms(StepAlarms &&) noexcept;
  StepAlarms &operator=(StepAlarms &&) noexcept;
  ~StepAlarms();

  /// Returns the alarms of the step that the program has just completed. The
  /// step has to have computed at least the statistics that were due.
  std::vector<Alarm> observe(const StepMetrics &metrics);

private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation;
};

} // namespace binade

#endif // BINADE_RUNTIME_STEPALARMS_H
