//===- Settings.cpp - Rules and settings by parameter ---------------------===//

#include "Settings.h"
#include "ParameterKinds.h"
#include "binade/Container/Suggest.h"
#include "binade/Optimizer/RuleLibrary.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// The setting of the weight decay.
static constexpr StringLiteral kDecay = "weight_decay";

namespace {
/// The settings of a parameter.
struct Choice {
  SmallVector<HyperValues> values; ///< Of each rule.
  std::string form;
  int64_t heads = 0;
  bool setsDecay = false; ///< Whether its group sets the weight decay.
};

class SettingsReader {
public:
  SettingsReader(ArrayRef<OptimizerOp> given, Location location)
      : rules(given), location(location) {
    for (OptimizerOp rule : rules) {
      HyperValues values;
      for (auto setting : rule.getHypers().getAsRange<SettingAttr>())
        values.push_back(setting.getDefault());
      common.values.push_back(values);
    }
    for (auto setting : rules.front().getHypers().getAsRange<SettingAttr>())
      share(setting.getName(), setting.getDefault(), common);
  }

  LogicalResult readCommon(StringRef variant, ArrayRef<std::string> settings) {
    if (!variant.empty() && failed(readVariant(variant)))
      return failure();
    for (StringRef text : settings)
      if (failed(apply(text, common)))
        return failure();
    return success();
  }

  FailureOr<SmallVector<Group>> sort(const SettingTexts &texts,
                                     ArrayRef<TrainedParameter> parameters) {
    common.setsDecay = false;
    SmallVector<Choice> chosen(parameters.size(), common);
    for (StringRef text : texts.groups)
      if (failed(readGroup(text, parameters, chosen)))
        return failure();
    if (texts.decaysOnlyMatrices && failed(decayMatrices(parameters, chosen)))
      return failure();
    SmallVector<Group> result = {
        Group{rules.front(), common.values.front(), {}}};
    for (auto [parameter, choice] : llvm::zip(parameters, chosen)) {
      FailureOr<size_t> rule = choose(parameter);
      if (failed(rule))
        return failure();
      Group own{rules[*rule], choice.values[*rule], {}};
      if (failed(checkGiven(own)))
        return failure();
      auto *group = llvm::find_if(result, [&](const Group &other) {
        return other.rule == own.rule && other.values == own.values;
      });
      if (group == result.end())
        group = &result.emplace_back(own);
      group->parameters.push_back(parameter);
      group->parameters.back().form = choice.form;
      group->parameters.back().heads = choice.heads;
    }
    if (result.size() > 1 && result.front().parameters.empty())
      result.erase(result.begin());
    return result;
  }

private:
  LogicalResult readVariant(StringRef name) {
    OptimizerOp rule = rules.front();
    FailureOr<DictionaryAttr> values = findVariant(rule, name, location);
    if (failed(values))
      return failure();
    for (auto [place, setting] :
         llvm::enumerate(rule.getHypers().getAsRange<SettingAttr>()))
      if (auto value = values->getAs<FloatAttr>(setting.getName())) {
        common.values.front()[place] = value.getValueAsDouble();
        share(setting.getName(), value.getValueAsDouble(), common);
      }
    return success();
  }

  FailureOr<size_t> choose(const TrainedParameter &parameter) {
    if (parameter.rule)
      return llvm::find(rules, parameter.rule) - rules.begin();
    for (size_t index = 0; index < rules.size(); ++index)
      if (isFor(rules[index], parameter.kind))
        return index;
    return emitUnsupportedKind(location, rules.front(), parameter)
           << ", and names no other for them";
  }

  /// Checks that hyper-parameters without a default have a value.
  LogicalResult checkGiven(const Group &group) {
    OptimizerOp rule = group.rule;
    for (auto [setting, value] :
         llvm::zip(rule.getHypers().getAsRange<SettingAttr>(), group.values))
      if (std::isnan(value))
        return emitError(location, "optimizer '")
               << rule.getSymName() << "', imported from the graph, has no "
               << "default for '" << setting.getName().getValue()
               << "', which is an input of the graph; expected a value for it";
    return success();
  }

  LogicalResult readGroup(StringRef text, ArrayRef<TrainedParameter> parameters,
                          MutableArrayRef<Choice> chosen) {
    auto [glob, assignments] = text.split(':');
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(glob);
    if (!pattern)
      return emitError(location, "'")
             << glob
             << "' is not a glob: " << llvm::toString(pattern.takeError());
    Choice choice = common;
    for (StringRef assignment : llvm::split(assignments, ';'))
      if (failed(apply(assignment, choice)))
        return failure();
    bool matched = false;
    for (auto [parameter, own] : llvm::zip(parameters, chosen))
      if (pattern->match(parameter.name)) {
        own = choice;
        matched = true;
      }
    if (matched)
      return success();
    return emitError(location, "group '")
           << glob << "' matches no parameter; the first is '"
           << (parameters.empty() ? "" : parameters.front().name) << "'";
  }

  /// Sets the weight decay of parameters that are not matrices to 0, unless
  /// their group sets it. Warns if no parameter decays.
  LogicalResult decayMatrices(ArrayRef<TrainedParameter> parameters,
                              MutableArrayRef<Choice> chosen) {
    bool isKnown = false, decays = false;
    for (auto [index, rule] : llvm::enumerate(rules))
      for (auto [place, setting] :
           llvm::enumerate(rule.getHypers().getAsRange<SettingAttr>())) {
        if (setting.getName() != kDecay)
          continue;
        isKnown = true;
        for (auto [parameter, own] : llvm::zip(parameters, chosen)) {
          double &value = own.values[index][place];
          if (!parameter.isMatrix && !own.setsDecay)
            value = 0;
          decays |= value != 0;
        }
      }
    StringRef name = rules.front().getSymName();
    if (!isKnown)
      return emitError(location, "decay=matrices: optimizer '")
             << name << "' has no setting '" << kDecay << "'";
    if (!decays)
      emitWarning(location, "decay=matrices has no effect: '")
          << kDecay << "' of optimizer '" << name
          << "' is 0; a setting such as " << kDecay << "=0.01 changes it";
    return success();
  }

  LogicalResult applyForm(StringRef form, Choice &choice) {
    std::vector<std::string> forms = getForms();
    if (llvm::is_contained(forms, form)) {
      choice.form = form;
      return success();
    }
    InFlightDiagnostic error = emitError(location, "optimizer '")
                               << rules.front().getSymName() << "' has no form";
    if (forms.empty())
      return error << "s to choose from, got '" << form << "'";
    return error << " '" << form << "'"
                 << ::binade::suggestOrList(form.str(), forms);
  }

  LogicalResult applyHeads(StringRef number, Choice &choice) {
    if (getPrepares(rules.front()).empty())
      return emitError(location, "optimizer '")
             << rules.front().getSymName()
             << "' computes nothing by row, so that '" << kHeadsSetting
             << "' has no effect; leave it out";
    double heads;
    constexpr double kMaxHeads = 1 << 30;
    if (!number.getAsDouble(heads) && heads >= 1 && heads <= kMaxHeads &&
        heads == std::floor(heads)) {
      choice.heads = static_cast<int64_t>(heads);
      return success();
    }
    return emitError(location, "expected a number of heads of at least 1 for '")
           << kHeadsSetting << "', got '" << number << "'";
  }

  /// Returns the forms that a user may name, without those for a mode of the
  /// run.
  std::vector<std::string> getForms() {
    std::vector<std::string> forms;
    std::string prefix = (rules.front().getSymName() + ".prepare.").str();
    for (func::FuncOp prepare : getPrepares(rules.front()))
      if (StringRef name = prepare.getName();
          name.consume_front(prefix) && name.rsplit('.').second != kShrink &&
          name != kShrink)
        forms.push_back(name.str());
    return forms;
  }

  /// Applies one `key=value` to `choice`.
  LogicalResult apply(StringRef text, Choice &choice) {
    auto [key, number] = text.split('=');
    if (key == kFormSetting)
      return applyForm(number, choice);
    if (key == kHeadsSetting)
      return applyHeads(number, choice);
    for (auto [index, rule] : llvm::enumerate(rules))
      for (auto [place, setting] :
           llvm::enumerate(rule.getHypers().getAsRange<SettingAttr>())) {
        if (getKey(index, setting) != key)
          continue;
        double value;
        if (number.getAsDouble(value))
          return emitError(location, "expected a number for '")
                 << key << "', got '" << number << "'";
        std::string problem = setting.explainViolation(value);
        if (!problem.empty())
          return emitError(location) << problem;
        choice.values[index][place] = value;
        choice.setsDecay |= setting.getName() == kDecay;
        if (index == 0)
          share(setting.getName(), value, choice);
        return success();
      }
    std::vector<std::string> names = getKeys();
    InFlightDiagnostic error = emitError(location, "optimizer '")
                               << rules.front().getSymName()
                               << "' has no setting '" << key << "'"
                               << ::binade::suggest(key, names);
    error.attachNote() << "it has " << llvm::join(names, ", ");
    return error;
  }

  /// Sets the values of other rules that have the same name as one of the first
  /// rule.
  void share(StringAttr name, double value, Choice &choice) {
    for (size_t index = 1; index < rules.size(); ++index)
      for (auto [place, setting] :
           llvm::enumerate(rules[index].getHypers().getAsRange<SettingAttr>()))
        if (setting.getName() == name)
          choice.values[index][place] = value;
  }

  /// Returns the user's name of a setting; settings of other rules have a
  /// prefix.
  std::string getKey(size_t rule, SettingAttr setting) {
    std::string name = setting.getName().str();
    return rule == 0 ? name : (rules[rule].getSymName() + "." + name).str();
  }
  std::vector<std::string> getKeys() {
    std::vector<std::string> keys;
    for (auto [index, rule] : llvm::enumerate(rules))
      for (auto setting : rule.getHypers().getAsRange<SettingAttr>())
        keys.push_back(getKey(index, setting));
    return keys;
  }

  SmallVector<OptimizerOp> rules;
  Location location;
  Choice common; ///< For all parameters.
};
} // namespace

InFlightDiagnostic
mlir::binade::emitUnsupportedKind(Location location, OptimizerOp rule,
                                  const TrainedParameter &parameter) {
  return emitError(location, "optimizer '")
         << rule.getSymName() << "' does not update "
         << stringifyParameterKind(parameter.kind) << " parameters such as '"
         << parameter.name << "'";
}

FailureOr<SmallVector<Group>> mlir::binade::readSettings(
    ArrayRef<OptimizerOp> rules, const SettingTexts &texts,
    ArrayRef<TrainedParameter> parameters, Location location) {
  SettingsReader reader(rules, location);
  if (failed(reader.readCommon(texts.variant, texts.common)))
    return failure();
  return reader.sort(texts, parameters);
}
