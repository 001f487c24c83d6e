//===- AlarmSettings.h - Alarm rules of a compiled step ---------*- C++ -*-===//
// An alarm rule consists of the metrics and statistics that it watches, and an
// expression that is true when they are unhealthy. docs/Monitoring.md lists the
// variables of the expressions.
//===----------------------------------------------------------------------===//

#ifndef BINADE_PLAN_ALARMSETTINGS_H
#define BINADE_PLAN_ALARMSETTINGS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace binade {

/// How the watched values are grouped into series.
enum class AlarmScope : std::uint8_t {
  Each,  ///< One series for each value, named `kind/layer`.
  Share, ///< One series: the share of values whose expression is not 0.
  All,   ///< One series: the maximum of `highest`, the minimum of `lowest`.
  Layer, ///< One series for each layer, with the statistics of all its kinds.
};
inline constexpr unsigned kNumAlarmScopes = 4;
std::string_view name(AlarmScope scope);
std::optional<AlarmScope> parseAlarmScope(std::string_view name);

/// A rule that raises alarms.
struct AlarmRule {
  std::string name;
  std::string about; ///< Description for `binade list alarms`.
  /// Requests for statistics; empty for a rule that reads only metrics.
  std::vector<std::string> watch;
  /// Cheaper requests, used if no option or policy names the rule. Rules with
  /// such requests, and rules that read only metrics, are on by default.
  std::vector<std::string> watchByDefault;
  bool isDefault = false;
  AlarmScope scope = AlarmScope::Each;
  /// Expression of the watched value, from statistics and metrics.
  std::string value;
  /// Number of steps that `when` considers, including the newest.
  std::int64_t window = 1;
  double level = 0;     ///< Threshold for `when` and for `Alarm::since`.
  std::string when;     ///< Expression that is true for an alarm.
  std::string says;     ///< The message, with {value}, {total} and {falls}.
  bool isShare = false; ///< Whether values are shown as percent.
  std::optional<double> forecast; ///< A value whose step is forecast.
  std::string remedy;             ///< What may help, as text.
  /// A policy's name, or lines of a policy that `binade policy check` accepts,
  /// with {layer}.
  std::string policy;
  std::string origin; ///< "file:line", for messages.
};

/// The reaction to an alarm.
enum class OnAlarm : std::uint8_t {
  Warn,
  Stop, ///< Stop after the step, with a checkpoint and exit code 4.
  /// Stop after the step with a checkpoint. `binade train` then converts the
  /// checkpoint and resumes under another policy.
  Switch,
};
std::string_view name(OnAlarm action);

/// The rules of a run, and the reaction to an alarm.
struct AlarmSettings {
  std::vector<AlarmRule> rules;
  OnAlarm action = OnAlarm::Warn;
  std::string policy; ///< The policy to resume under, with Switch.

  /// Parses `warn`, `stop` or `switch:POLICY`; returns false for other texts.
  bool setAction(std::string_view text);
  /// Returns the action as such a text.
  std::string getAction() const;
};

} // namespace binade

#endif // BINADE_PLAN_ALARMSETTINGS_H
