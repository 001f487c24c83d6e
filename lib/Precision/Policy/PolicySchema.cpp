//===- PolicySchema.cpp - Schema of policy files --------------------------===//

#include "PolicySchema.h"
#include "binade/Container/Suggest.h"
#include "binade/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::binade;
using Node = YamlReader::Node;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns a key that is equal for rules of the same kind with equal selectors.
static std::string getKey(const PolicyRule &rule) {
  const PolicySelector &match = rule.match;
  auto number = [](auto member) {
    return std::to_string(member ? static_cast<int>(*member) : -1);
  };
  std::string blocks = match.blocks ? match.blocks->first.print() + ":" +
                                          match.blocks->last.print()
                                    : "";
  // Names of ops have no spaces.
  return (rule.settings.areOfUpdates() ? "updates " : "") +
         llvm::join(match.ops, " ") + "\n" + number(match.phase) + " " +
         number(match.role) + " " + number(match.layer) + " " + blocks + " " +
         match.name.text;
}

/// Rejects two rules with equal selectors and different settings, because the
/// last one would hide the other.
static LogicalResult checkPolicyRules(YamlReader &, Node &, Policy &policy) {
  llvm::StringMap<const PolicyRule *> known;
  for (const PolicyRule &rule : policy.rules) {
    const PolicyRule *other =
        known.try_emplace(getKey(rule), &rule).first->second;
    if (rule.settings != other->settings)
      return emitError(rule.location)
             << "matches the same ops as the rule at " << other->origin
             << ", with other settings";
  }
  return success();
}

static LogicalResult checkLossScaling(YamlReader &reader, Node &node,
                                      LossScaling &scaling) {
  LossScaling plain;
  plain.fixed = scaling.fixed;
  plain.layers = scaling.layers;
  if (scaling.fixed && scaling != plain)
    return reader.error(node, "a static scale does not change; expected no "
                              "key next to 'static' except 'per_layer'");
  if (scaling.consecutiveHysteresis && scaling.hysteresis == 1)
    return reader.error(node, "consecutive_hysteresis needs a hysteresis above "
                              "1");
  double min = scaling.min.value_or(0.0), max = scaling.max.value_or(kInfinity);
  if (min <= scaling.init && scaling.init <= max)
    return success();
  return reader.error(node, "the first scale, " + formatNumber(scaling.init) +
                                ", is not within min and max");
}

static YamlSchema<LayerScaling> layerScalingSchema() {
  return yamlMapping<LayerScaling>(
      "per_layer",
      {yamlKey(
           "underflow",
           "Fraction of a layer's gradient elements that may flush to zero, "
           "assuming a normal distribution",
           &LayerScaling::underflow, yamlNumber(0, 1)),
       yamlKey("bound", "The largest scale of a layer", &LayerScaling::bound,
               yamlNumber(1, kInfinity)),
       yamlKey("gathered", "The largest product of the scales of layers",
               &LayerScaling::gathered, yamlNumber(1, kInfinity))});
}

static YamlSchema<LossScaling> lossScalingSchema() {
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
               "Good steps, after the start and after each overflow, that do "
               "not count; 1 in DeepSpeed",
               &LossScaling::delay, yamlCount(0)),
       yamlKey("hysteresis", "Overflows before the scale is lowered",
               &LossScaling::hysteresis, yamlCount(1)),
       yamlKey("consecutive_hysteresis",
               "Whether each good step restores the number of overflows; "
               "otherwise only growth of the scale does",
               &LossScaling::consecutiveHysteresis, yamlFlag()),
       yamlKey(
           "underflow",
           "Fraction of the nonzero gradients that may round to 0; above it "
           "the scale grows if the largest gradient allows it",
           &LossScaling::underflow, yamlShare()),
       yamlKey("check", "Good steps between two checks of this fraction",
               &LossScaling::check, yamlCount(1)),
       yamlKey("per_tensor",
               "Whether the gradient of each parameter also has a scale of its "
               "own, to which 'underflow' and 'check' then apply",
               &LossScaling::perTensor, yamlFlag()),
       yamlKey("per_layer",
               "Scales by which each layer with a weight multiplies the "
               "gradient that it passes to the layer before",
               &LossScaling::layers, layerScalingSchema())},
      checkLossScaling);
}

static YamlSchema<EvidenceLimits> limitsSchema() {
  return yamlMapping<EvidenceLimits>(
      "evidence",
      {yamlKey("underflow",
               "Largest fraction of the nonzero elements of a narrow value "
               "that may "
               "become 0",
               &EvidenceLimits::underflow, yamlShare()),
       yamlKey("overflow", "Largest fraction that may become infinite",
               &EvidenceLimits::overflow, yamlShare())});
}

static YamlKey<Policy> extendsKey() {
  YamlKey<Policy> key =
      yamlKey("extends",
              "Policy that this one changes: a name of 'binade policy list', "
              "or a file next to this one",
              &Policy::extends, yamlString());
  key.read = [read = key.read](YamlReader &reader, Node &node, Policy &policy) {
    policy.extendsLocation = reader.getLoc(node);
    return read(reader, node, policy);
  };
  return key;
}

static llvm::json::Object describe(llvm::json::Object schema, StringRef help) {
  schema["description"] = help;
  return schema;
}

static YamlSchema<BiasFormat> biasesSchema() {
  YamlSchema<size_t> word = yamlWord({"wide", "narrow"});
  return {[read = word.read](YamlReader &reader, Node &node,
                             BiasFormat &format) -> LogicalResult {
            size_t index;
            if (failed(read(reader, node, index)))
              return failure();
            format = static_cast<BiasFormat>(index);
            return success();
          },
          std::move(word.schema)};
}

/// A text with its location in the file.
static YamlSchema<AlarmRequest> yamlAlarmRequest() {
  YamlSchema<std::string> text = yamlString();
  return {
      [read = text.read](YamlReader &reader, Node &node, AlarmRequest &word) {
        word.location = reader.getLoc(node);
        return read(reader, node, word.text);
      },
      std::move(text.schema)};
}

static YamlSchema<AlarmRequest> yamlAlarmAction() {
  YamlSchema<AlarmRequest> word = yamlAlarmRequest();
  word.schema["pattern"] = ("^(warn|stop|" + kSwitchWord + ".+)$").str();
  word.read = [read = word.read](YamlReader &reader, Node &node,
                                 AlarmRequest &action) -> LogicalResult {
    if (failed(read(reader, node, action)))
      return failure();
    StringRef text = action.text;
    bool switches = text.consume_front(kSwitchWord) && !text.empty();
    if (switches || action.text == "warn" || action.text == "stop")
      return success();
    const std::string known[] = {"warn", "stop", kSwitchWord.str() + "POLICY"};
    return reader.error(node, "expected warn, stop or switch:POLICY, got '" +
                                  action.text + "'" +
                                  ::binade::suggest(action.text, known));
  };
  return word;
}

static YamlKey<Policy> alarmsKey() {
  return {
      "alarms",
      [read = yamlOneOrMore(yamlAlarmRequest()).read](
          YamlReader &reader, Node &node, Policy &policy) -> LogicalResult {
        std::vector<AlarmRequest> &words = policy.alarms.rules;
        if (failed(read(reader, node, words)))
          return failure();
        for (const AlarmRequest &word : words)
          if (word.text == "off" && words.size() > 1)
            return emitError(word.location) << "'off' stands alone";
        return success();
      },
      describe(yamlOneOrMore(yamlAlarmRequest()).schema,
               "Alarms of runs, in the syntax of --alarms: names of 'binade "
               "list alarms', all, off, or files of rules next to this "
               "one")};
}

static YamlKey<Policy> onAlarmKey() {
  return {"on_alarm",
          [read = yamlAlarmAction().read](YamlReader &reader, Node &node,
                                          Policy &policy) {
            return read(reader, node, policy.alarms.action.emplace());
          },
          describe(yamlAlarmAction().schema,
                   "Action after an alarm, in the syntax of --on-alarm: warn, "
                   "stop or switch:POLICY")};
}

const YamlSchema<Policy> &mlir::binade::getPolicyFileSchema() {
  static const YamlSchema<Policy> form = yamlMapping<Policy>(
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
       yamlKey("biases",
               "Format of the biases of matmuls and convolutions: f32, or the "
               "narrow format of the result",
               &Policy::biases, biasesSchema()),
       yamlKey("rules", "Rules; the last that matches an op wins",
               &Policy::rules, yamlList(yamlRule())),
       yamlKey("loss_scale", "Scaling of the loss", &Policy::lossScaling,
               lossScalingSchema()),
       yamlKey("cut", "Choice of formats by minimum cost on a target",
               &Policy::cut, yamlCut()),
       yamlKey("evidence",
               "Limits that the recorded range of a narrow value must respect",
               &Policy::limits, limitsSchema()),
       yamlKey("amax_half_life",
               "Steps after which a recorded magnitude counts half in delayed "
               "scales; replaces the histories of their formats",
               &Policy::amaxHalfLife, yamlCount(1)),
       yamlKey(
           "exchange",
           "Format in which the processes of a group exchange gradients, if "
           "the step is compiled for a group (--exchange policy); f32 "
           "by default",
           &Policy::exchange,
           yamlEnum(stringifyExchangeFormat, getMaxEnumValForExchangeFormat())),
       yamlKey("statistics",
               "Statistics to compute, in the syntax of --stats: "
               "KIND[/GLOB],...:STATISTIC,...[@every=N]",
               &Policy::statistics, yamlList(yamlString())),
       alarmsKey(), onAlarmKey(),
       yamlKey(
           "schedule",
           "Policies to which training switches, each after a number of steps, "
           "in this order; an empty list for none",
           &Policy::schedule, yamlSchedule())},
      checkPolicyRules);
  return form;
}

std::string mlir::binade::getPolicySchema() {
  llvm::json::Object schema = getPolicyFileSchema().schema;
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "Binade precision policy";
  return llvm::formatv("{0:2}\n", llvm::json::Value(std::move(schema)));
}
