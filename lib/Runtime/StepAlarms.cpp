//===- StepAlarms.cpp - Alarms of steps that somebody calls ---------------===//

#include "binade/Runtime/StepAlarms.h"
#include "AlarmWatch.h"

using namespace binade;

struct StepAlarms::Implementation {
  StatisticsRecorder statistics;
  AlarmWatch watch;
};

StepAlarms::StepAlarms(std::unique_ptr<Implementation> implementation)
    : implementation(std::move(implementation)) {}
StepAlarms::StepAlarms(StepAlarms &&) noexcept = default;
StepAlarms &StepAlarms::operator=(StepAlarms &&) noexcept = default;
StepAlarms::~StepAlarms() = default;

Result<StepAlarms> StepAlarms::create(const Program &program,
                                      const std::vector<AlarmRule> &rules) {
  for (const AlarmRule &rule : rules)
    if (Result<void> legal = checkAlarmRule(rule); !legal)
      return legal.takeError();
  return StepAlarms(std::make_unique<Implementation>(
      Implementation{StatisticsRecorder(program), AlarmWatch(rules)}));
}

std::vector<Alarm> StepAlarms::observe(const StepMetrics &metrics) {
  std::vector<Observed> observed =
      implementation->statistics.read(metrics.step);
  return implementation->watch.observe(AlarmStep(metrics, observed));
}
