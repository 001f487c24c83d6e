//===- PolicyForm.cpp - What may stand in a policy file -------------------===//

#include "PolicyForm.h"
#include "binade/Container/Suggest.h"
#include "binade/IR/Diagnostics.h"
#include "mlir/AsmParser/AsmParser.h"

using namespace mlir;
using namespace mlir::binade;
using Node = YamlReader::Node;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Numbers above its negative are those from zero on.
static constexpr double kTiny = std::numeric_limits<double>::denorm_min();

//===----------------------------------------------------------------------===//
// Words that depend on what is registered
//===----------------------------------------------------------------------===//

/// The word may be anything: MLIR's parser must not print its own diagnostic.
static FloatType parseFormat(StringRef word, MLIRContext *context) {
  ScopedDiagnosticHandler quiet(context,
                                [](Diagnostic &) { return success(); });
  return dyn_cast_if_present<FloatType>(parseType(word, context));
}

YamlForm<FloatType> mlir::binade::yamlFormat(bool ofOperands) {
  auto read = [ofOperands](YamlReader &reader, Node &node,
                           FloatType &format) -> LogicalResult {
    StringRef expected = "a float format such as f32, bf16 or f16";
    FailureOr<std::string> word = reader.readScalar(node, expected);
    if (failed(word))
      return failure();
    format = parseFormat(*word, reader.getContext());
    if (!format)
      return reader.error(node,
                          "expected " + expected + ", got '" + *word + "'");
    if (!ofOperands && getStorageFormat(format) != format)
      return reader.error(node, "expected a format of memory, got '" + *word +
                                    "', which only 'compute' may be");
    return success();
  };
  llvm::json::Object schema{{"type", "string"}};
  if (!ofOperands)
    schema["not"] = llvm::json::Object{{"const", "tf32"}};
  return {read, std::move(schema)};
}

static YamlForm<NameGlob> globForm() {
  auto read = [](YamlReader &reader, Node &node,
                 NameGlob &glob) -> LogicalResult {
    FailureOr<std::string> text = reader.readScalar(node, "a name");
    if (failed(text))
      return failure();
    // A pattern refers to its text, which lives as long as the context.
    auto pattern = llvm::GlobPattern::create(
        StringAttr::get(reader.getContext(), *text).getValue());
    if (!pattern)
      return reader.error(node, "'" + *text + "' is not a glob: " +
                                    llvm::toString(pattern.takeError()));
    glob = {std::move(*text), std::move(*pattern)};
    return success();
  };
  return {read, llvm::json::Object{{"type", "string"}}};
}

/// Names of the ops whose formats a policy may choose, without the prefix.
static std::vector<std::string> getOpNames(MLIRContext *context) {
  std::vector<std::string> names;
  for (RegisteredOperationName name : context->getRegisteredOperations())
    if (name.hasInterface<PrecisionOpInterface>())
      names.push_back(name.stripDialect().str());
  return names;
}

static YamlForm<std::string> opForm() {
  auto read = [](YamlReader &reader, Node &node,
                 std::string &op) -> LogicalResult {
    FailureOr<std::string> word = reader.readScalar(node, "the name of an op");
    if (failed(word))
      return failure();
    std::vector<std::string> names = getOpNames(reader.getContext());
    if (!llvm::is_contained(names, *word))
      return reader.error(node, "no op whose format can be chosen is called '" +
                                    *word + "'" +
                                    ::binade::suggest(*word, names));
    op = std::move(*word);
    return success();
  };
  return {read, llvm::json::Object{{"type", "string"}}};
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

static YamlForm<PolicySelector> selectorForm() {
  return yamlMapping<PolicySelector>(
      "match",
      {yamlKey("op", "Name of an op, or a list of names", &PolicySelector::ops,
               yamlOneOrMore(opForm())),
       yamlKey("name", "Name of a node, with * for any letters",
               &PolicySelector::name, globForm()),
       yamlKey("phase", "Part of the training step", &PolicySelector::phase,
               yamlEnum(stringifyPhase, getMaxEnumValForPhase())),
       yamlKey("role", "Tensors that the op reads or makes",
               &PolicySelector::role,
               yamlEnum(stringifyTensorRole, getMaxEnumValForTensorRole())),
       yamlKey(
           "layer", "The first or the last layer with a weight",
           &PolicySelector::layer,
           yamlEnum(stringifyLayerPosition, getMaxEnumValForLayerPosition()))});
}

/// A key of a rule's settings stands in the rule itself.
static YamlKey<PolicyRule> settingKey(YamlKey<PolicySettings> key) {
  auto read = [read = std::move(key.read)](YamlReader &reader, Node &node,
                                           PolicyRule &rule) {
    return read(reader, node, rule.settings);
  };
  return {std::move(key.name), std::move(read), std::move(key.schema)};
}

static LogicalResult finishRule(YamlReader &reader, Node &node,
                                PolicyRule &rule) {
  rule.origin = reader.getOrigin(node);
  rule.location = reader.getLoc(node);
  if (rule.settings == PolicySettings())
    return reader.error(node, "rule sets nothing; expected class, compute, "
                              "accumulate, result or saved");
  return success();
}

static YamlForm<PolicyRule> ruleForm() {
  return yamlMapping<PolicyRule>(
      "a rule",
      {yamlKey("match", "The ops that the rule speaks of", &PolicyRule::match,
               selectorForm()),
       settingKey(yamlKey("class", "How the ops tolerate the narrow format",
                          &PolicySettings::precisionClass,
                          yamlEnum(stringifyPrecisionClass,
                                   getMaxEnumValForPrecisionClass()))),
       settingKey(yamlKey("compute", "Format that operands are rounded to",
                          &PolicySettings::compute,
                          yamlFormat(/*ofOperands=*/true))),
       settingKey(yamlKey("accumulate", "Format of partial sums",
                          &PolicySettings::accumulate, yamlFormat())),
       settingKey(yamlKey("result", "Format of the results",
                          &PolicySettings::result, yamlFormat())),
       settingKey(yamlKey("saved",
                          "Format in which the results wait for the backward "
                          "part",
                          &PolicySettings::saved, yamlFormat())),
       yamlKey("optional", "Whether the rule may match nothing",
               &PolicyRule::isOptional, yamlFlag())},
      finishRule);
}

/// Two rules for the same ops would hide one another.
static LogicalResult checkRules(YamlReader &, Node &, Policy &policy) {
  for (auto [index, rule] : llvm::enumerate(policy.rules))
    for (const PolicyRule &other : ArrayRef(policy.rules).take_front(index))
      if (rule.match == other.match && rule.settings != other.settings)
        return emitError(rule.location)
               << "matches the same as the rule at " << other.origin
               << ", with other settings";
  return success();
}

//===----------------------------------------------------------------------===//
// The policy
//===----------------------------------------------------------------------===//

static LogicalResult checkLossScaling(YamlReader &reader, Node &node,
                                      LossScaling &scaling) {
  LossScaling plain;
  plain.fixed = scaling.fixed;
  if (scaling.fixed && scaling != plain)
    return reader.error(node, "a static scale does not change; expected no "
                              "key beside 'static'");
  if (scaling.consecutiveHysteresis && scaling.hysteresis == 1)
    return reader.error(node, "consecutive_hysteresis needs a hysteresis above "
                              "1");
  double min = scaling.min.value_or(0.0), max = scaling.max.value_or(kInfinity);
  if (min <= scaling.init && scaling.init <= max)
    return success();
  return reader.error(node, "the first scale, " + formatNumber(scaling.init) +
                                ", is not within min and max");
}

static YamlForm<LossScaling> lossScalingForm() {
  return yamlMapping<LossScaling>(
      "loss_scale",
      {yamlKey("static", "A scale that never changes", &LossScaling::fixed,
               yamlNumber(0, kInfinity)),
       yamlKey("init", "The first scale", &LossScaling::init,
               yamlNumber(0, kInfinity)),
       yamlKey("growth", "Factor after `interval` good steps in a row",
               &LossScaling::growth, yamlNumber(1, kInfinity)),
       yamlKey("backoff", "Factor after a step whose gradients overflowed",
               &LossScaling::backoff, yamlNumber(0, 1)),
       yamlKey("interval", "Good steps before the scale grows",
               &LossScaling::interval, yamlCount(1)),
       yamlKey("min", "The smallest scale", &LossScaling::min,
               yamlNumber(0, kInfinity)),
       yamlKey("max", "The largest scale", &LossScaling::max,
               yamlNumber(0, kInfinity)),
       yamlKey("delay",
               "Good steps after the start and after an overflow that do not "
               "count; 1 in DeepSpeed",
               &LossScaling::delay, yamlCount(0)),
       yamlKey("hysteresis", "Overflows before the scale is lowered",
               &LossScaling::hysteresis, yamlCount(1)),
       yamlKey("consecutive_hysteresis",
               "Whether a good step makes all of them due again, not only "
               "growth",
               &LossScaling::consecutiveHysteresis, yamlFlag())},
      checkLossScaling);
}

static YamlForm<CutSettings> cutForm() {
  auto rememberPlace = [](YamlReader &reader, Node &node, CutSettings &cut) {
    cut.location = reader.getLoc(node);
    if (cut.costs.empty())
      return reader.error(node, "cut has no 'costs'");
    return success();
  };
  YamlForm<CutFormat> format = yamlMapping<CutFormat>(
      "a format to choose",
      {yamlKey("format", "The format", &CutFormat::format, yamlFormat()),
       yamlKey("penalty",
               "Seconds that each infer op in it is charged, for what it does "
               "to the numbers",
               &CutFormat::penalty, yamlNumber(-kTiny, kInfinity))},
      [](YamlReader &reader, Node &node, CutFormat &format) {
        return format.format ? success()
                             : reader.error(node, "expected a 'format'");
      });
  return yamlMapping<CutSettings>(
      "cut",
      {yamlKey("costs",
               "Target whose costs are minimized: a shipped name, or a file "
               "of 'binade costs' beside this one",
               &CutSettings::costs, yamlString()),
       yamlKey("formats",
               "Formats to choose beside the wide one; the narrow one where "
               "none is named",
               &CutSettings::formats, yamlList(std::move(format))),
       yamlKey("memory",
               "Seconds that a GiB is worth which waits for the backward part",
               &CutSettings::memory, yamlNumber(-kTiny, kInfinity))},
      rememberPlace);
}

static YamlKey<Policy> extendsKey() {
  YamlKey<Policy> key =
      yamlKey("extends",
              "Policy that this one changes: a name of 'binade policy list', "
              "or a file beside this one",
              &Policy::extends, yamlString());
  key.read = [read = key.read](YamlReader &reader, Node &node, Policy &policy) {
    policy.extendsLocation = reader.getLoc(node);
    return read(reader, node, policy);
  };
  return key;
}

const YamlForm<Policy> &mlir::binade::getPolicyForm() {
  static const YamlForm<Policy> form = yamlMapping<Policy>(
      "a policy",
      {yamlKey("name", "Name in reports", &Policy::name, yamlString()),
       extendsKey(),
       yamlKey("narrow", "Format of ops that tolerate it", &Policy::narrow,
               yamlFormat()),
       yamlKey("wide", "Format of all others", &Policy::wide, yamlFormat()),
       yamlKey("propagate",
               "How ops follow the ops around them: PyTorch's operand rule, "
               "or Grappler's painting",
               &Policy::propagate,
               yamlEnum(stringifyPropagation, getMaxEnumValForPropagation())),
       yamlKey("rules", "Deviations; the last that matches an op wins",
               &Policy::rules, yamlList(ruleForm())),
       yamlKey("loss_scale", "Scaling of the loss", &Policy::lossScaling,
               lossScalingForm()),
       yamlKey("cut", "Formats of least cost on a target", &Policy::cut,
               cutForm())},
      checkRules);
  return form;
}

std::string mlir::binade::getPolicySchema() {
  llvm::json::Object schema = getPolicyForm().schema;
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "Binade precision policy";
  return llvm::formatv("{0:2}\n", llvm::json::Value(std::move(schema)));
}
