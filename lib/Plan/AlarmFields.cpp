//===- AlarmFields.cpp - Alarm rules in a plan's JSON ---------------------===//

#include "AlarmFields.h"

using namespace binade;
using namespace binade::plan;
using nlohmann::json;

static constexpr std::string_view kKey = "alarms";

static json write(const AlarmRule &rule) {
  json object = {{"name", rule.name},     {"scope", name(rule.scope)},
                 {"value", rule.value},   {"window", rule.window},
                 {"level", rule.level},   {"when", rule.when},
                 {"says", rule.says},     {"percent", rule.isShare},
                 {"origin", rule.origin}, {"watch", rule.watch}};
  if (rule.isDefault)
    object["default"] = true;
  if (rule.forecast)
    object["forecast"] = *rule.forecast;
  for (auto [key, text] :
       {std::pair("about", &rule.about), std::pair("remedy", &rule.remedy),
        std::pair("policy", &rule.policy)})
    if (!text->empty())
      object[key] = *text;
  return object;
}

void plan::writeAlarms(json &object, const AlarmSettings &settings) {
  if (settings.rules.empty())
    return;
  json rules = json::array();
  for (const AlarmRule &rule : settings.rules)
    rules.push_back(write(rule));
  object[std::string(kKey)] = {{"rules", std::move(rules)},
                               {"action", settings.getAction()}};
}

static AlarmRule readRule(Fields fields) {
  AlarmRule rule;
  rule.name = fields.text("name");
  rule.about = fields.optionalText("about");
  fields.each("watch", [&](const json &value, std::size_t) {
    rule.watch.push_back(fields.toText("watch", value));
  });
  rule.scope = fields.named<AlarmScope>("scope", parseAlarmScope, "scope");
  rule.value = fields.text("value");
  rule.window = fields.integer("window");
  if (rule.window < 1)
    throw fields.error("window", "a positive number of steps");
  rule.level = fields.number("level");
  rule.when = fields.text("when");
  rule.says = fields.text("says");
  rule.isShare = fields.flag("percent");
  rule.isDefault = fields.flag("default");
  rule.forecast = fields.optionalNumber("forecast");
  rule.remedy = fields.optionalText("remedy");
  rule.policy = fields.optionalText("policy");
  rule.origin = fields.text("origin");
  fields.finish();
  return rule;
}

AlarmSettings plan::readAlarms(Fields &fields) {
  AlarmSettings settings;
  const json *value = fields.find(kKey);
  if (!value)
    return settings;
  Fields inner = fields.inner(*value, kKey);
  inner.each("rules", [&](const json &rule, std::size_t i) {
    settings.rules.push_back(
        readRule(inner.inner(rule, "rule " + std::to_string(i))));
  });
  if (!settings.setAction(inner.text("action")))
    throw inner.error("action", "warn, stop or switch:POLICY");
  inner.finish();
  return settings;
}
