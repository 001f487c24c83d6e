//===- ScheduleArguments.h - Length and schedules of a run ------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_SCHEDULEARGUMENTS_H
#define BINADE_COMMANDLINE_SCHEDULEARGUMENTS_H

#include "binade/Runtime/Training.h"
#include <CLI/CLI.hpp>

namespace binade {

/// The options --steps, --epochs, --schedule and --warmup.
struct ScheduleArguments {
  void add(CLI::App &command, TrainOptions &options);
  /// Parses the schedules.
  Result<void> complete(TrainOptions &options) const;

private:
  std::vector<std::string> schedules;
  std::string warmup;
};

/// Throws an error of CLI11 unless --steps or --epochs is given.
void requireLength(const CLI::App &command);

/// Prints the expression of each schedule.
void printSchedules(const TrainOptions &options);

} // namespace binade

#endif // BINADE_COMMANDLINE_SCHEDULEARGUMENTS_H
