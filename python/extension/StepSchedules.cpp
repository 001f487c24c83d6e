//===- StepSchedules.cpp - Schedules of steps that Python calls -----------===//

#include "Failure.h"
#include "Modules.h"
#include "binade/Runtime/ScheduledSettings.h"
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;
using namespace binade;
using namespace binade::python;

namespace {
/// Schedules, and the hyper-parameters of a program that they set.
struct StepSchedules {
  StepSchedules(std::vector<Schedule> schedules, ScheduledSettings settings)
      : schedules(std::move(schedules)), settings(std::move(settings)) {}
  StepSchedules(StepSchedules &&) = default;

  std::vector<Schedule> schedules;
  ScheduledSettings settings;
};
} // namespace

/// Parses schedules. `texts` are values of `--schedule`, `warmup` is one of
/// `--warmup` or empty; `steps` is the total number of steps, or 0 if that is
/// unknown.
static StepSchedules chooseSchedules(const Program &program,
                                     const std::vector<std::string> &texts,
                                     const std::string &warmup,
                                     std::int64_t steps) {
  std::vector<Schedule> schedules = take(parseSchedules(texts, warmup));
  for (const Schedule &schedule : schedules)
    if (schedule.usesSteps() && steps == 0)
      throw Failure(Error{"schedule " + quote(schedule.getName()),
                          "the expression reads 'steps', the number of steps, "
                          "which is not set: " +
                              schedule.getExpression(),
                          ExitCode::Usage}
                        .withNote("set it with the argument steps=N"));
  ScheduledSettings settings =
      take(ScheduledSettings::create(program, schedules, steps));
  return {std::move(schedules), std::move(settings)};
}

void python::addStepSchedules(nb::module_ &module) {
  nb::class_<StepSchedules>(module, "StepSchedules")
      .def("apply", [](const StepSchedules &schedules, std::int64_t done) {
        check(schedules.settings.apply(done));
      });
  // Schedules write to the program's memory, so it has to outlive them.
  module.def("choose_schedules", &chooseSchedules, "program"_a, "texts"_a,
             "warmup"_a, "steps"_a, nb::keep_alive<0, 1>());
}
