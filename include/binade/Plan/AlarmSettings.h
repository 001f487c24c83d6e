//===- AlarmSettings.h - What of a run is worth an alarm --------*- C++ -*-===//
// A rule is data: which numbers of a run it watches, and the expression that
// calls them unhealthy. docs/Monitoring.md says what the expressions know.
//===----------------------------------------------------------------------===//

#ifndef BINADE_PLAN_ALARMSETTINGS_H
#define BINADE_PLAN_ALARMSETTINGS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace binade {

/// How the places that a rule watches become series.
enum class AlarmScope : std::uint8_t {
  Each,  ///< One for each value, as `kind/layer`.
  Share, ///< The share of values whose number is not 0.
  All,   ///< One of all values: the largest `highest`, the least `lowest`.
  Layer, ///< One for each layer, of which all kinds are known together.
};
inline constexpr unsigned kNumAlarmScopes = 4;
std::string_view name(AlarmScope scope);
std::optional<AlarmScope> parseAlarmScope(std::string_view name);

struct AlarmRule {
  std::string name;
  std::string about; ///< What it finds, for `binade list alarms`.
  /// Requests of statistics; none where it goes by metrics alone.
  std::vector<std::string> watch;
  /// The cheaper requests for a rule that no option or policy names. Rules that
  /// have them, and rules that need metrics alone, are on by default.
  std::vector<std::string> watchByDefault;
  bool isDefault = false;
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

enum class OnAlarm : std::uint8_t {
  Warn,
  Stop,   ///< End after the step, with a checkpoint and exit code 4.
  Switch, ///< The same; whoever has a compiler goes on under another policy.
};
std::string_view name(OnAlarm action);

/// Which rules a run is held against, and what an alarm leads to.
struct AlarmSettings {
  std::vector<AlarmRule> rules;
  OnAlarm action = OnAlarm::Warn;
  std::string policy; ///< That to go on under, with Switch.

  /// Takes `warn`, `stop` or `switch:POLICY`; false for other texts.
  bool setAction(std::string_view text);
  /// The text.
  std::string getAction() const;
};

} // namespace binade

#endif // BINADE_PLAN_ALARMSETTINGS_H
