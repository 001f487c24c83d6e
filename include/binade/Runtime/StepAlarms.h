//===- StepAlarms.h - Alarms of steps that somebody calls -------*- C++ -*-===//

#ifndef BINADE_RUNTIME_STEPALARMS_H
#define BINADE_RUNTIME_STEPALARMS_H

#include "binade/Runtime/Training.h"
#include <memory>

namespace binade {

/// Holds rules against the steps of a program, for whoever has a loop of their
/// own. `train` does it by itself.
class StepAlarms {
public:
  /// `rules` are such as `chooseAlarms` gives, which has checked them.
  StepAlarms(const Program &program, const std::vector<AlarmRule> &rules);
  StepAlarms(StepAlarms &&) noexcept;
  StepAlarms &operator=(StepAlarms &&) noexcept;
  ~StepAlarms();

  /// The alarms of the step that the program has just done, and in which it
  /// computed what is due, or all that it observes.
  std::vector<Alarm> observe(const StepMetrics &metrics);

private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation;
};

} // namespace binade

#endif // BINADE_RUNTIME_STEPALARMS_H
