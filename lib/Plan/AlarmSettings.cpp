//===- AlarmSettings.cpp - Alarm rules of a compiled step -----------------===//

#include "binade/Plan/AlarmSettings.h"
#include <algorithm>
#include <array>

using namespace binade;

static constexpr std::array<std::string_view, kNumAlarmScopes> kScopes = {
    "each", "share", "all", "layer"};

std::string_view binade::name(AlarmScope scope) {
  return kScopes[static_cast<std::size_t>(scope)];
}

std::optional<AlarmScope> binade::parseAlarmScope(std::string_view name) {
  auto found = std::ranges::find(kScopes, name);
  if (found == kScopes.end())
    return std::nullopt;
  return static_cast<AlarmScope>(found - kScopes.begin());
}

std::string_view binade::name(OnAlarm action) {
  switch (action) {
  case OnAlarm::Warn:
    return "warn";
  case OnAlarm::Stop:
    return "stop";
  case OnAlarm::Switch:
    return "switch";
  }
  return "";
}

static constexpr std::string_view kSwitch = "switch:";

std::string AlarmSettings::getAction() const {
  return action == OnAlarm::Switch ? std::string(kSwitch) + policy
                                   : std::string(name(action));
}

bool AlarmSettings::setAction(std::string_view text) {
  if (text == "warn" || text == "stop") {
    action = text == "warn" ? OnAlarm::Warn : OnAlarm::Stop;
    policy.clear();
    return true;
  }
  if (!text.starts_with(kSwitch) || text.size() == kSwitch.size())
    return false;
  action = OnAlarm::Switch;
  policy = text.substr(kSwitch.size());
  return true;
}
