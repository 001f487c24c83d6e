//===- AlarmRules.h - rules of alarms, from files ---------------*- C++ -*-===//

#ifndef BINADE_PIPELINES_ALARMRULES_H
#define BINADE_PIPELINES_ALARMRULES_H

#include "binade/Runtime/AlarmRule.h"
#include "mlir/IR/MLIRContext.h"

namespace mlir::binade {

using AlarmRules = std::vector<::binade::AlarmRule>;

/// The rules that are shipped, in the order of `binade list alarms`.
AlarmRules getShippedAlarms(MLIRContext *context);

/// Whether a rule needs nothing of the step but its metrics, which cost
/// nothing.
bool isOfMetrics(const ::binade::AlarmRule &rule);

/// The rules that a user chooses: those of metrics, and by `words` all of them
/// (`all`), one by its name, those of a .yaml file, or none (`off`, alone).
/// A rule of a file takes the place of one with its name. Errors of files have
/// been reported; of words they are of usage (2).
FailureOr<AlarmRules> loadAlarms(StringRef file, MLIRContext *context);
::binade::Result<void> checkAlarmWords(ArrayRef<std::string> words,
                                       MLIRContext *context);
FailureOr<AlarmRules> chooseAlarms(ArrayRef<std::string> words,
                                   MLIRContext *context);

/// What the rules want to be computed: requests of statistics.
std::vector<std::string> listRequests(ArrayRef<::binade::AlarmRule> rules);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_ALARMRULES_H
