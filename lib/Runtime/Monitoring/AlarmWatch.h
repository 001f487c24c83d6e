//===- AlarmWatch.h - Rules over what a run does ----------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_ALARMWATCH_H
#define BINADE_LIB_RUNTIME_MONITORING_ALARMWATCH_H

#include "StatisticsRecorder.h"
#include "binade/Container/Json.h"
#include "binade/Runtime/Alarms.h"
#include <map>
#include <memory>

namespace binade {

/// Numbers by the names that expressions have for them; NaN for what is not
/// known.
using AlarmNumbers = std::map<std::string, double>;

/// What a step says of one value.
struct AlarmPlace {
  std::string kind, layer;
  /// Of a histogram of exponents `highest` and `lowest`; of the others the name
  /// without a format.
  AlarmNumbers statistics;
};

/// A step as rules see it.
struct AlarmStep {
  std::int64_t step = 0;
  AlarmNumbers metrics;
  std::vector<AlarmPlace> places;

  AlarmStep(const StepMetrics &metrics, std::span<const Observed> observed);
  /// The same from a line of metrics.jsonl; one of stats.jsonl adds a place.
  explicit AlarmStep(const nlohmann::json &metrics);
  void add(const nlohmann::json &statistics);
};

/// Holds rules against one step after the other. Each place gives one alarm per
/// rule, and another only when it was sound for a whole window.
class AlarmWatch {
public:
  explicit AlarmWatch(const std::vector<AlarmRule> &rules);
  AlarmWatch(AlarmWatch &&) noexcept;
  AlarmWatch &operator=(AlarmWatch &&) noexcept;
  ~AlarmWatch();

  /// Evaluates all expressions; what muParser throws says what is wrong.
  void check() const;
  std::vector<Alarm> observe(const AlarmStep &step);
  /// Observes the steps up to `last` that the files of a run tell of.
  Result<std::vector<Alarm>> observe(const std::string &directory,
                                     std::int64_t last);
  /// Reads from a run's alarms.jsonl which alarms were raised already,
  /// including those that `observe` cannot derive from the run's other files.
  Result<void> recall(const std::string &path);

private:
  class Rule;
  std::vector<std::unique_ptr<Rule>> rules;
  double goodInRow = 0; ///< Steps that were not skipped.
  double calm = 0;      ///< The most of these so far.
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_ALARMWATCH_H
