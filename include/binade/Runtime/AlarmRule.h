//===- AlarmRule.h - What of a run is worth an alarm ------------*- C++ -*-===//
// A rule is data: which numbers of a run it watches, and the expression that
// calls them unhealthy. docs/Monitoring.md says what the expressions know.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_ALARMRULE_H
#define BINADE_RUNTIME_ALARMRULE_H

#include "binade/Container/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace binade {

/// How the places that a rule watches become series.
enum class AlarmScope : std::uint8_t {
  Each,  ///< One for each value, as `kind/layer`.
  Share, ///< The share of values whose number is not 0.
  All,   ///< One of all values: the largest `highest`, the least `lowest`.
  Layer, ///< One for each layer, of which all kinds are known together.
};

struct AlarmRule {
  std::string name;
  std::string about; ///< What it finds, for `binade list alarms`.
  /// Requests of statistics; none where it goes by metrics alone.
  std::vector<std::string> watch;
  AlarmScope scope = AlarmScope::Each;
  /// The number that is watched, of statistics and metrics.
  std::string value;
  /// Steps that `when` looks back, the newest included.
  std::int64_t window = 1;
  double level = 0; ///< What `when` compares with; also where `since` begins.
  std::string when; ///< Whether that is an alarm.
  std::string says; ///< The message, with {value}, {total} and {falls}.
  bool isShare = false;           ///< Whether values are shown as percent.
  std::optional<double> forecast; ///< A value whose step is foretold.
  std::string remedy;             ///< What helps, in words.
  /// A policy's name, or lines of a policy that `binade policy check` accepts,
  /// with {layer}.
  std::string policy;
  std::string origin; ///< "file:line", for messages.
};

/// Says what is wrong with the expressions of a rule: at its origin (3).
Result<void> checkAlarmRule(const AlarmRule &rule);

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

enum class OnAlarm : std::uint8_t {
  Warn,
  Stop,   ///< End after the step, with a checkpoint and exit code 4.
  Switch, ///< The same; whoever has a compiler goes on under another policy.
};

/// The alarms of a run in `directory`, from its metrics.jsonl and stats.jsonl.
Result<std::vector<Alarm>> findAlarms(const std::string &directory,
                                      const std::vector<AlarmRule> &rules);

} // namespace binade

#endif // BINADE_RUNTIME_ALARMRULE_H
