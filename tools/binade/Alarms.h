//===- Alarms.h - Alarm options of the command line -------------*- C++ -*-===//
#ifndef BINADE_TOOLS_BINADE_ALARMS_H
#define BINADE_TOOLS_BINADE_ALARMS_H

#include "Options.h"
#include "binade/Pipelines/AlarmRules.h"
#include "binade/Runtime/Checkpoint.h"

/// Values of the options --alarms and --on-alarm.
struct AlarmArguments {
  std::vector<std::string> words;
  std::string onAlarm; ///< Empty to use the policy's action.

  void add(CLI::App &command);
  /// Validates the options and stores their values in `step`.
  ::binade::Result<void> complete(mlir::binade::CompileOptions &step) const;
  /// Returns the policy under which a run continues after an alarm, from the
  /// command line or the policy of `step`; empty if there is none.
  std::string findNextPolicy(const mlir::binade::CompileOptions &step) const;
  /// Returns the settings for a compiled step with the alarms `known`. On
  /// failure prints the error and returns the exit code.
  std::variant<::binade::AlarmSettings, int>
  chooseOf(const ::binade::AlarmSettings &known,
           const OutputArguments &output) const;
};

/// Returns the manifest of the newest complete checkpoint of a run, if it has
/// one.
std::optional<::binade::Manifest> findNewestManifest(const std::string &run);

/// Returns whether the newest complete checkpoint of a run uses `policy`.
bool hasSwitched(const std::string &run, const std::string &policy);

/// Adds only the option --alarms.
CLI::Option *addAlarmRequests(CLI::App &command,
                              std::vector<std::string> &words);

#endif // BINADE_TOOLS_BINADE_ALARMS_H
