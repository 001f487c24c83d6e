//===- Settings.cpp - Hyper-parameters of a compiled step -----------------===//

#include "binade/Runtime/Settings.h"
#include "binade/Container/Suggest.h"
#include <algorithm>

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

std::string binade::describeSettings(const Plan &plan) {
  std::string text;
  for (const Setting &setting : getSettings(plan))
    text += (text.empty() ? "" : ", ") + printable(setting.name) + "=" +
            formatNumber(setting.value);
  return text.empty() ? "none" : text;
}

std::string binade::explainViolation(const Port &hyper, double value) {
  return hyper.range.value_or(NumberRange())
      .explainViolation(hyper.name, value);
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
      return Error{where, "the compiled step has no hyper-parameter " +
                              quote(setting.name) +
                              suggest(setting.name, known)}
          .withNote("it has " + describeSettings(plan));
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
