//===- Settings.h - Hyper-parameters of a compiled step ---------*- C++ -*-===//
// They are scalars that a step reads, so that they change without compiling
// again.
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

/// The hyper-parameters of a plan with the values that a run starts from, in
/// the plan's order. Those of a group of parameters end in `@` and its number.
std::vector<Setting> getSettings(const Plan &plan);

/// `getSettings` as text: `lr=0.001, beta1=0.9`.
std::string describeSettings(const Plan &plan);

/// What is wrong with `value` for a hyper-parameter, or an empty string.
std::string explainViolation(const plan::Port &hyper, double value);

/// Gives hyper-parameters other values. A name without `@` also stands for
/// those groups whose value was the common one, unless the group is named
/// itself, before or after; of equal names the last counts. Refused are unknown
/// names and values out of range; `where` names the plan's file in errors.
Result<void> applySettings(Plan &plan, const std::vector<Setting> &settings,
                           const std::string &where);

} // namespace binade

#endif // BINADE_RUNTIME_SETTINGS_H
