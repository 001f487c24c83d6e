//===- Alarms.h - alarms of a run -------------------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_ALARMS_H
#define BINADE_RUNTIME_ALARMS_H

#include "binade/Container/Error.h"
#include "binade/Plan/AlarmSettings.h"

namespace binade {

/// Says what is wrong with a rule, its expressions above all: at its origin
/// (3).
Result<void> checkAlarmRule(const AlarmRule &rule);

/// What a user chooses of the alarms that a compiled step has: by `words` those
/// of metrics and others by name, `all` or none (`off`, alone), without any
/// what the step says; by `action` what they lead to unless it is empty. Where
/// the step's policy would have another take over, training stops, and `policy`
/// is still its name. Errors are of usage (2), and of rules (3).
Result<AlarmSettings> chooseAlarms(const AlarmSettings &known,
                                   const std::vector<std::string> &words,
                                   const std::string &action);

/// Whether a rule needs nothing of the step but its metrics.
bool isOfMetrics(const AlarmRule &rule);
/// Whether a rule is on unless it is switched off.
bool isOnByDefault(const AlarmRule &rule);

/// An alarm: what, where, since when, what comes, and what helps.
struct Alarm {
  std::int64_t step = 0;
  std::string rule;
  /// `kind/layer` or layer; of a share those that are counted, at most a few;
  /// empty for metrics.
  std::string where;
  std::int64_t since = 0; ///< The first step of the window at the level.
  double value = 0;
  std::string message;
  /// The step at which the value will be at `level`, by a straight line.
  struct Forecast {
    double level;
    std::int64_t step;
  };
  std::optional<Forecast> forecast;
  std::string remedy, policy;
};

/// In words, as the terminal shows it; one line, then one for each hint.
std::vector<std::string> describe(const Alarm &alarm);

/// The alarms of a run in `directory`, from its metrics.jsonl and stats.jsonl.
Result<std::vector<Alarm>> findAlarms(const std::string &directory,
                                      const std::vector<AlarmRule> &rules);

} // namespace binade

#endif // BINADE_RUNTIME_ALARMS_H
