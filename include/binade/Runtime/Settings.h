//===- Settings.h - Hyper-parameters of a compiled step ---------*- C++ -*-===//
// Hyper-parameters are scalar inputs of a step, so changing them needs no
// recompilation.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_SETTINGS_H
#define BINADE_RUNTIME_SETTINGS_H

#include "binade/Container/Error.h"
#include "binade/Plan/Plan.h"

namespace binade {

struct Setting {
  std::string name;
  double value = 0;
};

/// Returns the hyper-parameters of a plan with their initial values, in the
/// order of the plan. The name of a parameter group's setting ends in `@` and
/// the group's number.
std::vector<Setting> getSettings(const Plan &plan);

/// Returns a hyper-parameter's name as text: `lr`, or `lr of group 1` for
/// `lr@1`.
std::string describeSetting(std::string_view name);

/// Returns `getSettings` as text, with the values of groups that differ from
/// the common ones: `lr=0.001, weight_decay=0.01; group 1: weight_decay=0`.
std::string describeSettings(const Plan &plan);

/// Adds a note that lists the settings of the plan and how to name them.
Error addSettings(Error error, const Plan &plan);

/// Returns why `value` is out of range for a hyper-parameter; empty if it is
/// not.
std::string explainViolation(const plan::Port &hyper, double value);

/// Changes hyper-parameters of a plan. A setting without `@` also applies to
/// the groups that had the common value, unless `settings` contains one for the
/// group. If a name occurs more than once, the last one applies. Unknown names
/// and values out of range are errors, in which `where` names the plan's file.
Result<void> applySettings(Plan &plan, const std::vector<Setting> &settings,
                           const std::string &where);

} // namespace binade

#endif // BINADE_RUNTIME_SETTINGS_H
