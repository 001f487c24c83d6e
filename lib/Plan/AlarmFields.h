//===- AlarmFields.h - alarms in a plan's JSON ------------------*- C++ -*-===//

#ifndef BINADE_LIB_PLAN_ALARMFIELDS_H
#define BINADE_LIB_PLAN_ALARMFIELDS_H

#include "Fields.h"
#include "binade/Plan/AlarmSettings.h"

namespace binade::plan {

/// Settings without rules are not written; `settings` of a plan without the key
/// have none.
void writeAlarms(nlohmann::json &object, const AlarmSettings &settings);
AlarmSettings readAlarms(Fields &fields);

} // namespace binade::plan

#endif // BINADE_LIB_PLAN_ALARMFIELDS_H
