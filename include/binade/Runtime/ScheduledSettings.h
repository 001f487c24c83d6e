//===- ScheduledSettings.h - Schedules applied to a program -----*- C++ -*-===//

#ifndef BINADE_RUNTIME_SCHEDULEDSETTINGS_H
#define BINADE_RUNTIME_SCHEDULEDSETTINGS_H

#include "binade/Runtime/Program.h"
#include "binade/Runtime/Schedule.h"

namespace binade {

/// The hyper-parameters of a program that have schedules. A schedule whose name
/// has no `@` applies to all parameter groups, with `base` set to the group's
/// value, except for groups that have their own schedule.
class ScheduledSettings {
public:
  /// Errors (exit code 2): names that the program lacks, and values that are
  /// out of range in one of the first million steps.
  static Result<ScheduledSettings>
  create(const Program &program, const std::vector<Schedule> &schedules,
         std::int64_t steps);

  /// Sets all scheduled hyper-parameters for the step after `done` steps.
  Result<void> apply(std::int64_t done) const;

private:
  struct Entry {
    const Schedule *schedule;
    const plan::Port *port;
    Tensor tensor;
    double base;
  };
  Result<double> evaluate(const Entry &entry, std::int64_t done) const;

  std::vector<Entry> entries;
  std::int64_t steps = 0;
};

} // namespace binade

#endif // BINADE_RUNTIME_SCHEDULEDSETTINGS_H
