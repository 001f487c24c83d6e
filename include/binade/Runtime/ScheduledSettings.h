//===- ScheduledSettings.h - Schedules of a program -------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_SCHEDULEDSETTINGS_H
#define BINADE_RUNTIME_SCHEDULEDSETTINGS_H

#include "binade/Runtime/Program.h"
#include "binade/Runtime/Schedule.h"

namespace binade {

/// The hyper-parameters of a program that schedules change. A name without `@`
/// stands for those of all groups, from the value of each, but for groups that
/// have a schedule of their own.
class ScheduledSettings {
public:
  /// Errors: names that the program lacks, and values out of range in one of
  /// the first million of steps (2).
  static Result<ScheduledSettings>
  create(const Program &program, const std::vector<Schedule> &schedules,
         std::int64_t steps);

  /// Gives all the value for the step after `done` steps.
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
