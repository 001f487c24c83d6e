//===- AlarmRequests.h - Alarms that a policy asks for ----------*- C++ -*-===//

#ifndef BINADE_IR_ALARMREQUESTS_H
#define BINADE_IR_ALARMREQUESTS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::binade {

/// A request: `all`, `off`, the name of a rule, or a file of rules.
struct AlarmRequest {
  std::string text; ///< For a file, its name in messages.
  /// The contents of the file; none for other requests.
  std::optional<std::string> contents;
  LocationAttr location;
};

/// Requests for alarms as text. Only Pipelines interprets them.
struct AlarmRequests {
  std::vector<AlarmRequest> rules;
  /// `warn`, `stop` or `switch:POLICY`; none if not set.
  std::optional<AlarmRequest> action;

  explicit operator bool() const { return !rules.empty() || action; }
  /// Prepends the rules of `base`, unless a rule is `off`; takes its action if
  /// none is set.
  void extend(const AlarmRequests &base);
};

/// On a module: the alarm requests of its policy, for later phases.
inline constexpr StringLiteral kAlarmsAttr = "binade.alarms";

/// Stores `words` in `module`; does nothing without requests.
void setAlarmRequests(ModuleOp module, const AlarmRequests &words);
/// Returns the requests of `module`; empty if it has none.
AlarmRequests getAlarmRequests(ModuleOp module);
/// Whether `value` has the form that `setAlarmRequests` writes.
bool areAlarmRequests(Attribute value);

} // namespace mlir::binade

#endif // BINADE_IR_ALARMREQUESTS_H
