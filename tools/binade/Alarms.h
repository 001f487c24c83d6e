//===- Alarms.h - alarms of a run, as the command line says them -*- C++ -*-==//

#ifndef BINADE_TOOLS_BINADE_ALARMS_H
#define BINADE_TOOLS_BINADE_ALARMS_H

#include "Options.h"
#include "binade/Pipelines/AlarmRules.h"

/// --alarms and --on-alarm.
struct AlarmArguments {
  std::vector<std::string> words;
  std::string onAlarm = "warn";
  /// After `complete`: what --on-alarm switch:POLICY names; empty otherwise.
  std::string policy;

  void add(CLI::App &command);
  /// Takes apart what the command line holds as text, and gives `train` the
  /// rules and `step` the statistics that they watch. Where that fails it has
  /// printed why; gives the exit code.
  int complete(const OutputArguments &output, binade::TrainOptions &train,
               mlir::binade::CompileOptions &step);
  /// Whether the newest whole checkpoint of a run is one of `policy`.
  bool hasSwitched(const std::string &run) const;
};

/// --alarms alone.
CLI::Option *addAlarmWords(CLI::App &command, std::vector<std::string> &words);

#endif // BINADE_TOOLS_BINADE_ALARMS_H
