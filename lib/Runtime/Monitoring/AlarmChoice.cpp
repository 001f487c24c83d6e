//===- AlarmChoice.cpp - Selection of alarm rules -------------------------===//

#include "binade/Container/Printable.h"
#include "binade/Container/Suggest.h"
#include "binade/Runtime/Alarms.h"
#include <algorithm>

using namespace binade;

static constexpr std::string_view kAll = "all", kOff = "off";

static Error usage(std::string_view option, std::string message) {
  return {std::string(option), std::move(message), ExitCode::Usage};
}

bool binade::readsOnlyMetrics(const AlarmRule &rule) {
  return rule.watch.empty();
}
bool binade::isOnByDefault(const AlarmRule &rule) {
  return readsOnlyMetrics(rule) || rule.isDefault;
}

/// Checks that each of `words` is `all`, `off` or the name of a rule.
static Result<void> checkNames(const std::vector<AlarmRule> &rules,
                               const std::vector<std::string> &words) {
  std::vector<std::string> names = {std::string(kAll), std::string(kOff)};
  for (const AlarmRule &rule : rules)
    names.push_back(rule.name);
  for (const std::string &word : words) {
    if (word == kOff && words.size() > 1)
      return usage("--alarms", "'off' stands alone");
    if (std::ranges::find(names, word) != names.end())
      continue;
    Error error = usage("--alarms", "the compiled step has no alarm " +
                                        quote(word) + suggest(word, names));
    std::string known;
    for (const AlarmRule &rule : rules)
      known += (known.empty() ? "it has " : ", ") + printable(rule.name);
    return std::move(error)
        .withNote(known.empty() ? "it has no alarms" : known)
        .withNote("'binade compile --alarms' sets which alarms a step has, and "
                  "reads files of rules");
  }
  return {};
}

Result<AlarmSettings>
binade::chooseAlarms(const AlarmSettings &known,
                     const std::vector<std::string> &words,
                     const std::string &action) {
  if (Result<void> legal = checkNames(known.rules, words); !legal)
    return legal.takeError();
  AlarmSettings chosen = known;
  auto has = [&](std::string_view word) {
    return std::ranges::find(words, word) != words.end();
  };
  if (has(kOff))
    chosen.rules.clear();
  else if (!words.empty() && !has(kAll))
    std::erase_if(chosen.rules, [&](const AlarmRule &rule) {
      return !isOnByDefault(rule) && !has(rule.name);
    });
  if (!action.empty() && !chosen.setAction(action))
    return usage("--on-alarm", "expected warn or stop, got " + quote(action));
  if (!action.empty() && chosen.action == OnAlarm::Switch)
    return usage("--on-alarm",
                 "a compiled step has one policy: expected warn or stop, got " +
                     quote(action))
        .withNote("train the model instead of the bundle to switch the policy; "
                  "or stop, and convert the checkpoint for a bundle of another "
                  "policy with 'binade ckpt convert'");
  // The policy of the step asks for a switch, which a compiled step cannot do.
  if (chosen.action == OnAlarm::Switch)
    chosen.action = OnAlarm::Stop;
  if (!action.empty() && chosen.action != OnAlarm::Warn && chosen.rules.empty())
    return usage("--on-alarm", action + " needs alarms, but no alarm is "
                                        "selected");
  for (const AlarmRule &rule : chosen.rules)
    if (Result<void> legal = checkAlarmRule(rule); !legal)
      return legal.takeError();
  return chosen;
}
