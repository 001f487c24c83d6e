//===- ScheduledSettings.cpp - Schedules applied to a program -------------===//

#include "binade/Runtime/ScheduledSettings.h"
#include "binade/Container/Suggest.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

static bool standsFor(const Schedule &schedule, const std::string &setting) {
  return setting == schedule.getName() ||
         setting.starts_with(schedule.getName() + "@");
}

/// Returns the schedule of a setting: the one with its full name, or else the
/// last one that applies to it.
static const Schedule *find(const std::vector<Schedule> &schedules,
                            const std::string &setting) {
  const Schedule *found = nullptr;
  for (const Schedule &schedule : schedules)
    if (standsFor(schedule, setting) &&
        (!found || schedule.getName() == setting ||
         found->getName() != setting))
      found = &schedule;
  return found;
}

Result<ScheduledSettings>
ScheduledSettings::create(const Program &program,
                          const std::vector<Schedule> &schedules,
                          std::int64_t steps) {
  constexpr std::int64_t kMaxChecked = 1'000'000;
  std::vector<Setting> known = getSettings(program.getPlan());
  for (const Schedule &schedule : schedules) {
    if (std::any_of(known.begin(), known.end(), [&](const Setting &setting) {
          return standsFor(schedule, setting.name);
        }))
      continue;
    std::vector<std::string> names;
    for (const Setting &setting : known)
      names.push_back(setting.name);
    return addSettings({"--schedule",
                        "the compiled step has no hyper-parameter " +
                            quote(schedule.getName()) +
                            suggest(schedule.getName(), names),
                        ExitCode::Usage},
                       program.getPlan());
  }
  ScheduledSettings made;
  made.steps = steps;
  for (const Port &port : program.getPlan().ports)
    if (port.role == Role::Hyper)
      if (const Schedule *schedule = find(schedules, port.name))
        made.entries.push_back({schedule, &port,
                                *program.find(Role::Hyper, port.name),
                                *readScalar(program, Role::Hyper, port.name)});
  for (const Entry &entry : made.entries)
    for (std::int64_t step = 0; step < std::min(steps, kMaxChecked); ++step)
      if (Result<double> value = made.evaluate(entry, step); !value)
        return value.takeError();
  return made;
}

Result<double> ScheduledSettings::evaluate(const Entry &entry,
                                           std::int64_t done) const {
  double value = entry.schedule->evaluate(done, steps, entry.base);
  if (std::string wrong = explainViolation(*entry.port, value); !wrong.empty())
    return Error{"--schedule " + printable(entry.schedule->getName()),
                 "for step " + std::to_string(done + 1) + ", " + wrong,
                 ExitCode::Usage}
        .withNote("it is " + quote(entry.schedule->getExpression()) +
                  " with base = " + formatNumber(entry.base) + ", step = " +
                  std::to_string(done) + ", steps = " + std::to_string(steps));
  return value;
}

Result<void> ScheduledSettings::apply(std::int64_t done) const {
  for (const Entry &entry : entries) {
    Result<double> value = evaluate(entry, done);
    if (!value)
      return value.takeError();
    entry.tensor.as<double>()[0] = *value;
  }
  return {};
}
