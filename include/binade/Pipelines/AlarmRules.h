//===- AlarmRules.h - rules of alarms, from files ---------------*- C++ -*-===//

#ifndef BINADE_PIPELINES_ALARMRULES_H
#define BINADE_PIPELINES_ALARMRULES_H

#include "binade/IR/AlarmRequests.h"
#include "binade/Runtime/Alarms.h"

namespace mlir::binade {

struct CompileOptions;
using AlarmRules = std::vector<::binade::AlarmRule>;

/// The rules that are shipped, in the order of `binade list alarms`.
AlarmRules getShippedAlarms(MLIRContext *context);

/// An error of usage (2) for words that a command line says and that stand for
/// nothing.
::binade::Result<void> checkAlarmRequests(ArrayRef<std::string> words,
                                          MLIRContext *context);

/// The rules that `words` choose: those that are on by default, and with `all`
/// every other, with a name that rule, with a .yaml file the rules in it; with
/// `off`, which stands alone, none. A rule of a file replaces one of the same
/// name. Errors are reported at the location of the word.
FailureOr<::binade::AlarmSettings> chooseAlarms(const AlarmRequests &words,
                                                MLIRContext *context);

/// The words of `options`, and where they have none those of a policy.
FailureOr<AlarmRequests> findAlarmRequests(const CompileOptions &options,
                                           AlarmRequests ofPolicy,
                                           MLIRContext *context);

/// What the rules want to be computed: requests of statistics.
std::vector<std::string> listRequests(ArrayRef<::binade::AlarmRule> rules);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_ALARMRULES_H
