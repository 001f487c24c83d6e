//===- Settings.cpp - hyper-parameters by parameter name ------------------===//

#include "Settings.h"
#include "binade/Container/Suggest.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::binade;

static HyperValues getDefaults(OptimizerOp rule) {
  HyperValues values;
  for (auto setting : rule.getHypers().getAsRange<SettingAttr>())
    values.push_back(setting.getDefault());
  return values;
}

/// Writes one `key=value` into `values`.
static LogicalResult apply(OptimizerOp rule, StringRef text,
                           HyperValues &values, Location location) {
  auto [key, number] = text.split('=');
  std::vector<std::string> names;
  for (auto [index, setting] :
       llvm::enumerate(rule.getHypers().getAsRange<SettingAttr>())) {
    names.push_back(setting.getName().str());
    if (setting.getName() != key)
      continue;
    double value;
    if (number.getAsDouble(value))
      return emitError(location, "expected a number for '")
             << key << "', got '" << number << "'";
    std::string problem = setting.explainViolation(value);
    if (!problem.empty())
      return emitError(location) << problem;
    values[index] = value;
    return success();
  }
  InFlightDiagnostic error = emitError(location, "optimizer '")
                             << rule.getSymName() << "' has no setting '" << key
                             << "'" << ::binade::suggest(key, names);
  error.attachNote() << "it has " << llvm::join(names, ", ");
  return error;
}

FailureOr<SmallVector<Group>>
mlir::binade::readSettings(OptimizerOp rule, ArrayRef<std::string> settings,
                           ArrayRef<std::string> groups,
                           ArrayRef<StringRef> parameters, Location location) {
  HyperValues common = getDefaults(rule);
  for (StringRef text : settings)
    if (failed(apply(rule, text, common, location)))
      return failure();

  SmallVector<HyperValues> chosen(parameters.size(), common);
  for (StringRef text : groups) {
    auto [glob, assignments] = text.split(':');
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(glob);
    if (!pattern)
      return emitError(location, "'")
             << glob
             << "' is not a glob: " << llvm::toString(pattern.takeError());
    HyperValues values = common;
    for (StringRef assignment : llvm::split(assignments, ';'))
      if (failed(apply(rule, assignment, values, location)))
        return failure();
    bool matched = false;
    for (auto [index, parameter] : llvm::enumerate(parameters))
      if (pattern->match(parameter)) {
        chosen[index] = values;
        matched = true;
      }
    if (!matched)
      return emitError(location, "group '")
             << glob << "' matches no parameter; the first is '"
             << (parameters.empty() ? "" : parameters.front()) << "'";
  }

  SmallVector<Group> result = {Group{common, {}}};
  for (auto [parameter, values] : llvm::zip(parameters, chosen)) {
    auto *group = llvm::find_if(
        result, [&](const Group &g) { return g.values == values; });
    if (group == result.end())
      group = &result.emplace_back(Group{values, {}});
    group->parameters.push_back(parameter);
  }
  if (result.size() > 1 && result.front().parameters.empty())
    result.erase(result.begin());
  return result;
}
