//===- AlarmRequests.h - alarms as a policy asks for them -------*- C++ -*-===//

#ifndef BINADE_IR_ALARMREQUESTS_H
#define BINADE_IR_ALARMREQUESTS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::binade {

/// `all`, `off`, the name of a rule, or a file of rules.
struct AlarmRequest {
  std::string text; ///< Of a file how messages call it.
  /// What the file says; nothing for other words.
  std::optional<std::string> contents;
  LocationAttr location;
};

/// Alarms by words, which only Pipelines knows the meaning of.
struct AlarmRequests {
  std::vector<AlarmRequest> rules;
  /// `warn`, `stop` or `switch:POLICY`, or nothing.
  std::optional<AlarmRequest> action;

  explicit operator bool() const { return !rules.empty() || action; }
  /// Adds these words to those of `base`; `off` leaves out what came before.
  void extend(const AlarmRequests &base);
};

/// Of a module: the words of its policy, for whoever compiles what is left.
inline constexpr StringLiteral kAlarmsAttr = "binade.alarms";

/// Lets `module` keep `words`.
void setAlarmRequests(ModuleOp module, const AlarmRequests &words);
/// What it keeps; no words where that is nothing.
AlarmRequests getAlarmRequests(ModuleOp module);
/// Whether `value` is what `setAlarmRequests` writes.
bool areAlarmRequests(Attribute value);

} // namespace mlir::binade

#endif // BINADE_IR_ALARMREQUESTS_H
