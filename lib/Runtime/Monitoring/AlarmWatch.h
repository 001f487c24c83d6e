//===- AlarmWatch.h - Evaluation of alarm rules -----------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_ALARMWATCH_H
#define BINADE_LIB_RUNTIME_MONITORING_ALARMWATCH_H

#include "StatisticsRecorder.h"
#include "binade/Container/Json.h"
#include "binade/Runtime/Alarms.h"
#include <map>
#include <memory>

namespace binade {

/// Values by their names in expressions; NaN if unknown.
using AlarmNumbers = std::map<std::string, double>;

/// The statistics of one watched value in a step.
struct AlarmPlace {
  std::string kind, layer;
  /// Values by the name of the statistic without its format. A histogram of
  /// exponents is represented by `highest` and `lowest`.
  AlarmNumbers statistics;
};

/// The metrics and statistics of a step, which rules are evaluated on.
struct AlarmStep {
  std::int64_t step = 0;
  AlarmNumbers metrics;
  std::vector<AlarmPlace> places;

  AlarmStep(const StepMetrics &metrics, std::span<const Observed> observed);
  /// Reads the metrics from a line of metrics.jsonl.
  explicit AlarmStep(const nlohmann::json &metrics);
  /// Adds the statistics of a line of stats.jsonl.
  void add(const nlohmann::json &statistics);
};

/// Evaluates alarm rules on one step after the other. A rule raises one alarm
/// for each value, and another one only after its condition was false for a
/// whole window.
class AlarmWatch {
public:
  explicit AlarmWatch(const std::vector<AlarmRule> &rules);
  AlarmWatch(AlarmWatch &&) noexcept;
  AlarmWatch &operator=(AlarmWatch &&) noexcept;
  ~AlarmWatch();

  /// Evaluates all expressions; throws mu::ParserError if one is invalid.
  void check() const;
  std::vector<Alarm> observe(const AlarmStep &step);
  /// Observes the steps up to `last` from metrics.jsonl and stats.jsonl of a
  /// run.
  Result<std::vector<Alarm>> observe(const std::string &directory,
                                     std::int64_t last);
  /// Reads from a run's alarms.jsonl which alarms were raised already,
  /// including those that `observe` cannot derive from the run's other files.
  Result<void> recall(const std::string &path);

private:
  class Rule;
  std::vector<std::unique_ptr<Rule>> rules;
  double goodInRow = 0; ///< Steps that were not skipped.
  double calm = 0;      ///< The maximum of `goodInRow` so far.
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_ALARMWATCH_H
