//===- RuleLibrary.cpp - The shipped optimizer rules ----------------------===//

#include "binade/Optimizer/RuleLibrary.h"
#include "binade/Container/Suggest.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/ParseModule.h"
#include "binade/IR/Rules.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include <string_view>

namespace mlir::binade {
using DataFiles = std::vector<std::pair<std::string_view, std::string_view>>;
const DataFiles &getRuleFiles();

static constexpr StringLiteral kSuffix = ".mlir";

std::vector<StringRef> getRuleNames() {
  std::vector<StringRef> names;
  for (auto [file, text] : getRuleFiles())
    names.push_back(StringRef(file).drop_back(kSuffix.size()));
  return names;
}

std::pair<StringRef, StringRef> splitVariant(StringRef optimizer) {
  StringRef variant = optimizer.rsplit(':').second;
  // The colon may be part of a path.
  if (variant.empty() || optimizer.ends_with(kSuffix))
    return {optimizer, ""};
  return optimizer.rsplit(':');
}

static OwningOpRef<ModuleOp> parseRuleFile(StringRef path,
                                           MLIRContext *context) {
  auto module = parseModuleFile(path.str(), *context);
  if (module)
    return *std::move(module);
  const ::binade::Error &error = module.error();
  InFlightDiagnostic diagnostic =
      emitError(getPartLoc(context, error.where, error.part));
  diagnostic << error.message;
  for (const std::string &note : error.notes)
    diagnostic.attachNote() << note;
  return nullptr;
}

static OwningOpRef<ModuleOp> parseRule(StringRef name, MLIRContext *context) {
  ParserConfig config(context);
  if (name.ends_with(kSuffix))
    return parseRuleFile(name, context);
  for (auto [file, text] : getRuleFiles())
    if (StringRef(file).drop_back(kSuffix.size()) == name)
      return parseSourceString<ModuleOp>(StringRef(text), config,
                                         StringRef(file));
  std::vector<StringRef> known = getRuleNames();
  std::vector<std::string> names(known.begin(), known.end());
  std::string near = ::binade::suggest(name.str(), names);
  std::string list =
      llvm::join(names, ", ") + ", or a rule file ending in " + kSuffix.str();
  InFlightDiagnostic error = emitError(UnknownLoc::get(context))
                             << "unknown optimizer '" << name << "'";
  if (near.empty()) {
    error << "; expected one of " << list;
    return nullptr;
  }
  error << near;
  error.attachNote() << "there are " << list;
  return nullptr;
}

/// Returns the function `suffix` of the rule, and checks it with `explain`.
static FailureOr<func::FuncOp>
checkFormula(OptimizerOp optimizer, StringRef suffix,
             llvm::function_ref<std::string(func::FuncOp)> explain) {
  std::string name = (optimizer.getSymName() + suffix).str();
  auto module = optimizer->getParentOfType<ModuleOp>();
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function)
    return optimizer.emitError("needs a function '@") << name << "'";
  if (std::string wrong = explain(function); !wrong.empty())
    return function.emitError(wrong);
  return function;
}

static LogicalResult checkRule(OptimizerOp optimizer) {
  FailureOr<func::FuncOp> found =
      checkFormula(optimizer, ".scalars", [&](func::FuncOp scalars) {
        return explainScalarsViolation(optimizer, scalars);
      });
  if (failed(found))
    return failure();
  func::FuncOp scalars = *found;
  size_t states = optimizer.getStates().size();
  auto module = optimizer->getParentOfType<ModuleOp>();
  SmallVector<func::FuncOp> prepares = getPrepares(optimizer);
  for (func::FuncOp prepare : prepares)
    if (std::string wrong =
            explainViolation(prepare, states, scalars.getNumResults());
        !wrong.empty())
      return prepare.emitError("'@") << prepare.getName() << "' " << wrong;
  std::optional<unsigned> offset = findEvaluationOffset(optimizer);
  for (func::FuncOp prepare : prepares)
    if (offset && !isElementwise(prepare, *offset))
      return prepare.emitError("needs the shape of the parameter for state '")
             << kEvaluationOffset << "', which is added to it";
  // All forms of `prepare` pass the same number of values to `update`.
  func::FuncOp prepare = prepares.empty() ? func::FuncOp() : prepares.front();
  for (func::FuncOp other : prepares)
    if (other.getNumResults() != prepare.getNumResults())
      return other.emitError("'@")
             << other.getName() << "' returns " << other.getNumResults()
             << " values, '@" << prepare.getName() << "' returns "
             << prepare.getNumResults();
  auto check = [&](StringRef suffix) {
    return checkFormula(optimizer, suffix, [&](func::FuncOp update) {
      return explainUpdateViolation(update, prepare, states,
                                    scalars.getNumResults());
    });
  };
  if (failed(check(".update")))
    return failure();
  bool answers =
      module.lookupSymbol((optimizer.getSymName() + ".update.shrink").str());
  return success(!answers || succeeded(check(".update.shrink")));
}

static FailureOr<Rule> loadOne(StringRef name, MLIRContext *context) {
  context->loadDialect<func::FuncDialect, math::MathDialect, BinadeDialect>();
  Rule rule{parseRule(name, context), nullptr, nullptr};
  if (!rule.module)
    return failure();
  auto optimizers = llvm::to_vector(rule.module->getOps<OptimizerOp>());
  if (optimizers.size() != 1)
    return rule.module->emitError(
               "expected one 'binade.optimizer' in a rule, got ")
           << optimizers.size();
  rule.optimizer = optimizers.front();
  if (failed(checkRule(rule.optimizer)))
    return failure();
  return rule;
}

FailureOr<Rule> loadRule(StringRef name, MLIRContext *context) {
  FailureOr<Rule> rule = loadOne(name, context);
  if (failed(rule) || !rule->optimizer.getOthers())
    return rule;
  FailureOr<Rule> others = loadOne(*rule->optimizer.getOthers(), context);
  if (failed(others))
    return failure();
  if (others->optimizer.getKinds())
    return rule->optimizer.emitError("leaves other parameters to '")
           << others->optimizer.getSymName()
           << "', which does not update all kinds";
  rule->others = std::make_unique<Rule>(std::move(*others));
  return rule;
}

FailureOr<DictionaryAttr> findVariant(OptimizerOp rule, StringRef name,
                                      Location location) {
  DictionaryAttr variants = rule.getVariantsAttr();
  auto values =
      variants ? variants.getAs<DictionaryAttr>(name) : DictionaryAttr();
  if (values)
    return values;
  std::vector<std::string> names;
  if (variants)
    for (NamedAttribute variant : variants)
      names.push_back(variant.getName().str());
  return emitError(location, "optimizer '")
         << rule.getSymName() << "' has no variant '" << name << "'"
         << ::binade::suggestOrList(name.str(), names);
}

FailureOr<Settings> getDefaults(StringRef optimizer, MLIRContext *context) {
  auto [name, variant] = splitVariant(optimizer);
  FailureOr<Rule> rule = loadRule(name, context);
  if (failed(rule))
    return failure();
  Settings settings;
  for (auto setting : rule->optimizer.getHypers().getAsRange<SettingAttr>())
    settings[setting.getName()] = setting.getDefault();
  if (variant.empty())
    return settings;
  FailureOr<DictionaryAttr> values =
      findVariant(rule->optimizer, variant, UnknownLoc::get(context));
  if (failed(values))
    return failure();
  for (auto &setting : settings)
    if (auto value = values->getAs<FloatAttr>(setting.getKey()))
      setting.second = value.getValueAsDouble();
  return settings;
}

} // namespace mlir::binade
