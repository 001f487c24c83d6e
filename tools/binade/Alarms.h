//===- Alarms.h - Alarm options of the command line -------------*- C++ -*-===//
#ifndef BINADE_TOOLS_BINADE_ALARMS_H
#define BINADE_TOOLS_BINADE_ALARMS_H

#include "Options.h"
#include "binade/Pipelines/AlarmRules.h"

/// --alarms and --on-alarm.
struct AlarmArguments {
  std::vector<std::string> words;
  std::string onAlarm; ///< Empty for what the policy says.

  void add(CLI::App &command);
  /// Checks what the command line can say wrong, and gives it to `step`.
  binade::Result<void> complete(mlir::binade::CompileOptions &step) const;
  /// The policy under which a run goes on after an alarm, by the command line
  /// or the policy of `step`; empty for none.
  std::string findNextPolicy(const mlir::binade::CompileOptions &step) const;
  /// What the command line chooses where a compiled step has `known`. Where
  /// that fails it has printed why; gives the exit code.
  std::variant<binade::AlarmSettings, int>
  chooseOf(const binade::AlarmSettings &known,
           const OutputArguments &output) const;
};

/// Whether the newest whole checkpoint of a run is one of `policy`.
bool hasSwitched(const std::string &run, const std::string &policy);

/// --alarms alone.
CLI::Option *addAlarmRequests(CLI::App &command,
                              std::vector<std::string> &words);

#endif // BINADE_TOOLS_BINADE_ALARMS_H
