//===- Settings.cpp - Hyper-parameters of a compiled step -----------------===//

#include "binade/Runtime/Settings.h"
#include "binade/Container/Suggest.h"
#include <algorithm>
#include <map>

using namespace binade;
using namespace binade::plan;

static double getValue(const Port &port) {
  auto *fill = std::get_if<FillInit>(&port.init);
  return fill ? fill->value : 0;
}

std::vector<Setting> binade::getSettings(const Plan &plan) {
  std::vector<Setting> settings;
  for (const Port &port : plan.ports)
    if (port.role == Role::Hyper)
      settings.push_back({port.name, getValue(port)});
  return settings;
}

/// Splits `lr@1` into the setting and the group, which is empty for settings
/// that are common to all other parameters.
static std::pair<std::string_view, std::string_view>
splitName(std::string_view name) {
  std::size_t at = name.find('@');
  return {name.substr(0, at), at == name.npos ? "" : name.substr(at + 1)};
}

std::string binade::describeSetting(std::string_view name) {
  auto [setting, group] = splitName(name);
  std::string text = printable(setting);
  return group.empty() ? text : text + " of group " + printable(group);
}

std::string binade::describeSettings(const Plan &plan) {
  std::string text;
  std::map<std::string_view, double> common;
  const std::vector<Setting> settings = getSettings(plan);
  std::string_view last;
  for (const Setting &setting : settings) {
    auto [name, group] = splitName(setting.name);
    if (group.empty())
      common[name] = setting.value;
    else if (auto found = common.find(name);
             found != common.end() && found->second == setting.value)
      continue;
    if (group != last)
      text += "; group " + printable(group) + ": ";
    else if (!text.empty())
      text += ", ";
    last = group;
    text += printable(name) + "=" + formatNumber(setting.value);
  }
  return text.empty() ? "none" : text;
}

Error binade::addSettings(Error error, const Plan &plan) {
  error = std::move(error).withNote("it has " + describeSettings(plan));
  for (const Setting &setting : getSettings(plan))
    if (setting.name.find('@') != std::string::npos)
      return std::move(error).withNote(quote(setting.name) + " names the " +
                                       describeSetting(setting.name));
  return error;
}

std::string binade::explainViolation(const Port &hyper, double value) {
  return hyper.range.value_or(NumberRange())
      .explainViolation(describeSetting(hyper.name), value);
}

/// Returns the hyper-parameters of `compiled` that a setting `name` changes.
static std::vector<std::string> resolve(const std::vector<Setting> &compiled,
                                        const std::string &name) {
  auto common = std::find_if(
      compiled.begin(), compiled.end(),
      [&](const Setting &setting) { return setting.name == name; });
  std::vector<std::string> names;
  if (common == compiled.end())
    return names;
  for (const Setting &setting : compiled)
    if (setting.name == name || (setting.name.starts_with(name + "@") &&
                                 setting.value == common->value))
      names.push_back(setting.name);
  return names;
}

Result<void> binade::applySettings(Plan &plan,
                                   const std::vector<Setting> &settings,
                                   const std::string &where) {
  const std::vector<Setting> compiled = getSettings(plan);
  // Settings of a single group are applied last, so that they win.
  std::vector<Setting> ordered = settings;
  std::stable_partition(ordered.begin(), ordered.end(),
                        [](const Setting &setting) {
                          return setting.name.find('@') == setting.name.npos;
                        });
  for (const Setting &setting : ordered) {
    std::vector<std::string> names = resolve(compiled, setting.name);
    if (names.empty()) {
      std::vector<std::string> known;
      for (const Setting &other : compiled)
        known.push_back(other.name);
      return addSettings({where, "the compiled step has no hyper-parameter " +
                                     quote(setting.name) +
                                     suggest(setting.name, known)},
                         plan);
    }
    for (Port &port : plan.ports) {
      if (port.role != Role::Hyper ||
          std::find(names.begin(), names.end(), port.name) == names.end())
        continue;
      if (auto wrong = explainViolation(port, setting.value); !wrong.empty())
        return Error{where, wrong};
      port.init = FillInit{setting.value};
    }
  }
  return {};
}
