//===- AlarmFile.h - Alarms as JSON lines -----------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_ALARMFILE_H
#define BINADE_LIB_RUNTIME_MONITORING_ALARMFILE_H

#include "../Runs/AppendFile.h"
#include "binade/Runtime/Alarms.h"

namespace binade {

/// Writes each alarm as one line of JSON with the fields `step`, `rule`,
/// `where`, `since`, `value`, `message`, `forecast` (null, or `level` and
/// `step`), `remedy`, `policy`, and `action`, the reaction to the alarm. The
/// first alarm creates the file.
class AlarmFile {
public:
  /// Removes the alarms after `step` from an existing file.
  static Result<AlarmFile> open(const std::string &path, std::int64_t step);
  Result<void> write(const Alarm &alarm, OnAlarm action);
  /// Syncs all alarms to disk.
  Result<void> sync() { return file.sync(); }

private:
  explicit AlarmFile(StepLines file) : file(std::move(file)) {}

  StepLines file;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_ALARMFILE_H
