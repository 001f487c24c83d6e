//===- AlarmFile.cpp - Alarms as JSON lines -------------------------------===//

#include "AlarmFile.h"
#include <cmath>

using namespace binade;

Result<AlarmFile> AlarmFile::open(const std::string &path, std::int64_t step) {
  Result<StepLines> lines = StepLines::open(path, step);
  if (!lines)
    return lines.takeError();
  return AlarmFile(*std::move(lines));
}

Result<void> AlarmFile::write(const Alarm &alarm, OnAlarm action) {
  using Json = nlohmann::ordered_json;
  Json object = {
      {"step", alarm.step},
      {"rule", alarm.rule},
      {"where", alarm.where},
      {"since", alarm.since},
      {"value", std::isfinite(alarm.value) ? Json(alarm.value) : Json()},
      {"message", alarm.message},
      {"forecast", alarm.forecast ? Json{{"level", alarm.forecast->level},
                                         {"step", alarm.forecast->step}}
                                  : Json()},
      {"remedy", alarm.remedy},
      {"policy", alarm.policy},
      {"action", name(action)}};
  return file.write(
      object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}
