//===- StepAlarms.cpp - Alarms of steps that Python calls -----------------===//

#include "binade/Runtime/StepAlarms.h"
#include "Failure.h"
#include "Modules.h"
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;
using namespace binade;
using namespace binade::python;

namespace {
/// The selected alarm rules of a program, and the object that evaluates them.
struct ChosenAlarms {
  AlarmSettings settings;
  StepAlarms watch;
};
} // namespace

static ChosenAlarms chooseStepAlarms(const Program &program,
                                     const std::vector<std::string> &words,
                                     const std::string &action) {
  AlarmSettings settings =
      take(chooseAlarms(program.getPlan().alarms, words, action));
  StepAlarms watch(program, settings.rules);
  return {std::move(settings), std::move(watch)};
}

/// Evaluates the rules on a step. `scale` is the loss scale before the step,
/// and `loss` the mean over all of its batches.
static std::vector<Alarm> observe(ChosenAlarms &alarms, const Program &program,
                                  std::int64_t step,
                                  std::optional<double> scale, double loss) {
  StepMetrics metrics = readMetrics(program, scale);
  metrics.step = step;
  metrics.loss = loss;
  return alarms.watch.observe(metrics);
}

void python::addStepAlarms(nb::module_ &module) {
  nb::class_<Alarm>(module, "Alarm")
      .def_ro("step", &Alarm::step)
      .def_ro("rule", &Alarm::rule)
      .def_ro("where", &Alarm::where)
      .def_ro("since", &Alarm::since)
      .def_ro("value", &Alarm::value)
      .def_ro("message", &Alarm::message)
      .def_prop_ro("forecast",
                   [](const Alarm &alarm) {
                     std::optional<std::pair<double, std::int64_t>> forecast;
                     if (alarm.forecast)
                       forecast = {alarm.forecast->level, alarm.forecast->step};
                     return forecast;
                   })
      .def_ro("remedy", &Alarm::remedy)
      .def_ro("policy", &Alarm::policy)
      .def("describe", [](const Alarm &alarm) { return describe(alarm); });
  nb::class_<ChosenAlarms>(module, "ChosenAlarms")
      .def_prop_ro("rules",
                   [](const ChosenAlarms &alarms) {
                     std::vector<std::string> names;
                     for (const AlarmRule &rule : alarms.settings.rules)
                       names.push_back(rule.name);
                     return names;
                   })
      .def_ro("settings", &ChosenAlarms::settings)
      .def_prop_ro("action",
                   [](const ChosenAlarms &alarms) {
                     return name(alarms.settings.action);
                   })
      .def_prop_ro(
          "policy",
          [](const ChosenAlarms &alarms) { return alarms.settings.policy; })
      .def("observe", &observe, "program"_a, "step"_a, "scale"_a.none(),
           "loss"_a);
  // The rules read the program's memory, so it has to outlive them.
  module.def("choose_alarms", &chooseStepAlarms, "program"_a, "words"_a,
             "action"_a, nb::keep_alive<0, 1>());
}
