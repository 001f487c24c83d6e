//===- StepAlarms.cpp - Alarms in user-defined training loops -------------===//

#include "binade/Runtime/StepAlarms.h"
#include "../Training/ScaleHistories.h"
#include "AlarmWatch.h"

using namespace binade;

struct StepAlarms::Implementation {
  StatisticsRecorder statistics;
  ScaleHistories histories;
  AlarmWatch watch;
};

StepAlarms::StepAlarms(StepAlarms &&) noexcept = default;
StepAlarms &StepAlarms::operator=(StepAlarms &&) noexcept = default;
StepAlarms::~StepAlarms() = default;

StepAlarms::StepAlarms(const Program &program,
                       const std::vector<AlarmRule> &rules)
    : implementation(std::make_unique<Implementation>(
          Implementation{StatisticsRecorder(program), ScaleHistories(program),
                         AlarmWatch(rules)})) {}

std::vector<Alarm> StepAlarms::observe(const StepMetrics &metrics) {
  std::vector<Observed> observed =
      implementation->statistics.read(metrics.step);
  AlarmStep step(metrics, observed);
  implementation->histories.addTo(step);
  return implementation->watch.observe(step);
}
