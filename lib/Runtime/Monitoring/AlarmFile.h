//===- AlarmFile.h - Alarms as JSON lines -----------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_ALARMFILE_H
#define BINADE_LIB_RUNTIME_MONITORING_ALARMFILE_H

#include "../Runs/AppendFile.h"
#include "binade/Runtime/Alarms.h"

namespace binade {

/// One JSON object per line and alarm: `step`, `rule`, `where`, `since`,
/// `value`, `message`, `forecast` (null, or `level` and `step`), `remedy`,
/// `policy`, and `action`, what was done about it. The file is made by the
/// first alarm.
class AlarmFile {
public:
  /// Cuts off what follows `step`, if the file is there.
  static Result<AlarmFile> open(const std::string &path, std::int64_t step);
  Result<void> write(const Alarm &alarm, OnAlarm action);

private:
  explicit AlarmFile(StepLines file) : file(std::move(file)) {}

  StepLines file;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_ALARMFILE_H
