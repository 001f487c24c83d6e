//===- ScheduleArguments.cpp - Length and schedules of a run --------------===//

#include "binade/CommandLine/ScheduleArguments.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Runtime/NamedSchedules.h"
#include "binade/Runtime/Settings.h"
#include <iostream>

using namespace binade;

void ScheduleArguments::add(CLI::App &command, TrainOptions &options) {
  auto *steps = command
                    .add_option("--steps", options.steps,
                                "Number of steps to train, counted from the "
                                "start of the run")
                    ->type_name("N")
                    ->check(integer<std::int64_t>());
  command
      .add_option("--epochs", options.epochs,
                  "Number of passes over the training samples (those of "
                  "--data that are not held out), counted from the start of "
                  "the run; instead of --steps")
      ->type_name("N")
      ->check(integer<std::int64_t>(1))
      ->excludes(steps);
  command
      .add_option("--schedule", schedules,
                  "Schedule of the learning rate by name, with parameters: " +
                      joinScheduleNames() +
                      ", such as cosine or cosine:min_lr=1e-5 ('binade list "
                      "schedules'); or a hyper-parameter as a function of the "
                      "step, such as 'lr=base * cosine(step, steps)'; lr=@FILE "
                      "reads the expression from a file")
      ->type_name("[NAME=]SCHEDULE")
      ->allow_extra_args(false);
  command
      .add_option("--warmup", warmup,
                  "Increase the learning rate linearly from 0 over the first "
                  "N steps, or P% of all steps; then follow the schedule, or "
                  "stay constant without one")
      ->type_name("N|P%");
}

Result<void> ScheduleArguments::complete(TrainOptions &options) const {
  Result<std::vector<Schedule>> parsed = parseSchedules(schedules, warmup);
  if (!parsed)
    return parsed.takeError();
  options.schedules = *std::move(parsed);
  return {};
}

void binade::requireLength(const CLI::App &command) {
  if (command.count("--steps") + command.count("--epochs") == 0)
    throw CLI::RequiredError("--steps or --epochs");
}

void binade::printSchedules(const TrainOptions &options) {
  for (const Schedule &schedule : options.schedules)
    std::cout << "schedule: " << describeSetting(schedule.getName()) << " = "
              << printable(schedule.getExpression()) << "\n";
}
