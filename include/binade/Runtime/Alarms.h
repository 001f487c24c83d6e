//===- Alarms.h - Alarm rules of a training run -----------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_ALARMS_H
#define BINADE_RUNTIME_ALARMS_H

#include "binade/Container/Error.h"
#include "binade/Plan/AlarmSettings.h"

namespace binade {

/// Checks the requests for statistics and the expressions of a rule. Errors
/// name the origin of the rule (exit code 3).
Result<void> checkAlarmRule(const AlarmRule &rule);

/// Returns the alarms that a user selects from `known`, those of a compiled
/// step. `words` is `all`, `off` alone, or names of rules, which are added to
/// the rules that are on by default; empty keeps all of `known`. `action`
/// replaces the action of the step unless it is empty. The action `switch` of
/// `known` becomes `stop`, since a compiled step has only one policy. Errors:
/// wrong words or action (exit code 2), invalid rules (3).
Result<AlarmSettings> chooseAlarms(const AlarmSettings &known,
                                   const std::vector<std::string> &words,
                                   const std::string &action);

/// Whether a rule reads only metrics and no statistics of the step.
bool readsOnlyMetrics(const AlarmRule &rule);
/// Whether a rule is on by default.
bool isOnByDefault(const AlarmRule &rule);

/// An alarm that a rule raised.
struct Alarm {
  std::int64_t step = 0;
  std::string rule;
  /// `kind/layer` or `layer` of the watched value; the first few of the counted
  /// values for a rule about a share of values; empty for metrics.
  std::string where;
  /// The first step of the window at which the value reached the level.
  std::int64_t since = 0;
  double value = 0;
  std::string message;
  /// The step at which the value will reach `level`, extrapolated linearly.
  struct Forecast {
    double level;
    std::int64_t step;
  };
  std::optional<Forecast> forecast;
  std::string remedy, policy;
};

/// Returns the alarm as text for the terminal: one line, then one line for each
/// hint.
std::vector<std::string> describe(const Alarm &alarm);

/// Evaluates `rules` on the metrics.jsonl and stats.jsonl of the run in
/// `directory`, and returns the alarms that they raise.
Result<std::vector<Alarm>> findAlarms(const std::string &directory,
                                      const std::vector<AlarmRule> &rules);

} // namespace binade

#endif // BINADE_RUNTIME_ALARMS_H
