//===- AlarmRules.h - Selection of alarm rules ------------------*- C++ -*-===//

#ifndef BINADE_PIPELINES_ALARMRULES_H
#define BINADE_PIPELINES_ALARMRULES_H

#include "binade/IR/AlarmRequests.h"
#include "binade/Runtime/Alarms.h"

namespace mlir::binade {

struct CompileOptions;
using AlarmRules = std::vector<::binade::AlarmRule>;

/// Returns the rules that Binade ships, in the order of `binade list alarms`.
AlarmRules getShippedAlarms(MLIRContext *context);

/// Fails with a usage error (exit code 2) if one of `words`, from a command
/// line, is neither an alarm, a file of rules, `all` nor `off`, or if `off` is
/// combined with others.
::binade::Result<void> checkAlarmRequests(ArrayRef<std::string> words,
                                          MLIRContext *context);

/// Returns the rules that `words` select: those that are on by default, plus
/// all others for `all`, the rule of each name, and the rules in each .yaml
/// file; none for `off`. A rule of a file replaces one of the same name. Errors
/// are reported at the location of the word.
FailureOr<::binade::AlarmSettings> chooseAlarms(const AlarmRequests &words,
                                                MLIRContext *context);

/// Returns the alarm requests of `options` or, for those that are not set, of
/// the policy.
FailureOr<AlarmRequests> findAlarmRequests(const CompileOptions &options,
                                           AlarmRequests ofPolicy,
                                           MLIRContext *context);

/// Returns the requests of statistics that the rules evaluate.
std::vector<std::string> listRequests(ArrayRef<::binade::AlarmRule> rules);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_ALARMRULES_H
