//===- AlarmFields.h - Alarm rules in a plan's JSON -------------*- C++ -*-===//

#ifndef BINADE_LIB_PLAN_ALARMFIELDS_H
#define BINADE_LIB_PLAN_ALARMFIELDS_H

#include "Fields.h"
#include "binade/Plan/AlarmSettings.h"

namespace binade::plan {

/// Writes the key `alarms`, unless there are no rules.
void writeAlarms(nlohmann::json &object, const AlarmSettings &settings);
/// Reads the key `alarms`; returns no rules without it.
AlarmSettings readAlarms(Fields &fields);

} // namespace binade::plan

#endif // BINADE_LIB_PLAN_ALARMFIELDS_H
