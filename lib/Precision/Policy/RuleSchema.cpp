//===- RuleSchema.cpp - Schema of the rules of a policy -------------------===//

#include "PolicySchema.h"
#include "binade/Container/Suggest.h"
#include "binade/IR/Diagnostics.h"

using namespace mlir;
using namespace mlir::binade;
using Node = YamlReader::Node;

//===----------------------------------------------------------------------===//
// Names that depend on registered types and ops
//===----------------------------------------------------------------------===//

YamlSchema<FloatType> mlir::binade::yamlFormat(ArrayRef<StringLiteral> floats) {
  std::vector<std::string> names(floats.begin(), floats.end());
  YamlSchema<size_t> word = yamlWord(names);
  auto read = [names, read = word.read](YamlReader &reader, Node &node,
                                        FloatType &format) -> LogicalResult {
    size_t index;
    if (failed(read(reader, node, index)))
      return failure();
    format = findFormat(names[index], reader.getContext());
    return success();
  };
  return {read, std::move(word.schema)};
}

static YamlSchema<NameGlob> globSchema() {
  auto read = [](YamlReader &reader, Node &node,
                 NameGlob &glob) -> LogicalResult {
    FailureOr<std::string> text = reader.readScalar(node, "a name");
    if (failed(text))
      return failure();
    llvm::Expected<NameGlob> built = buildGlob(*text, reader.getContext());
    if (!built)
      return reader.error(node, llvm::toString(built.takeError()));
    glob = std::move(*built);
    return success();
  };
  return {read, llvm::json::Object{{"type", "string"}}};
}

/// Returns the schema of a name that `find` resolves, described by `expected`.
template <typename T>
static YamlSchema<T> namedSchema(StringRef expected,
                                 FailureOr<T> (*find)(StringRef name,
                                                      Location location)) {
  auto read = [expected, find](YamlReader &reader, Node &node,
                               T &value) -> LogicalResult {
    FailureOr<std::string> name = reader.readScalar(node, expected);
    if (failed(name))
      return failure();
    FailureOr<T> found = find(*name, reader.getLoc(node));
    if (succeeded(found))
      value = *found;
    return found;
  };
  return {read, llvm::json::Object{{"type", "string"}}};
}

/// Parses one name, or two joined by '+': for states that may be negative, and
/// for the others.
static YamlSchema<StateFormats> stateSchema() {
  return namedSchema("a format of states such as bf16 or e4m3x",
                     findStateFormats);
}

static YamlSchema<QuantizedAttr> tensorFormatSchema() {
  return namedSchema<QuantizedAttr>("a format with scales such as e4m3-tensor",
                                    [](StringRef name, Location location) {
                                      return findTensorFormat(name, location);
                                    });
}

/// Finds a float format, or a quantized one.
static FailureOr<Attribute> findSavedFormat(StringRef name, Location location) {
  if (llvm::is_contained(kComputedFloats, name) ||
      llvm::is_contained(kByteFloats, name))
    return Attribute(TypeAttr::get(findFormat(name, location.getContext())));
  SmallVector<StringLiteral> floats(kComputedFloats.begin(),
                                    kComputedFloats.end());
  llvm::append_range(floats, kByteFloats);
  FailureOr<QuantizedAttr> found = findTensorFormat(name, location, floats);
  return failed(found) ? FailureOr<Attribute>() : Attribute(*found);
}

static YamlSchema<Attribute> savedSchema() {
  return namedSchema("a format such as bf16 or coat-group", findSavedFormat);
}

static YamlSchema<OperandFormats> operandsSchema() {
  return yamlMapping<OperandFormats>(
      "formats of operands",
      {yamlKey("activation", "Of results of the forward pass",
               &OperandFormats::activation, tensorFormatSchema()),
       yamlKey("weight", "Of parameters", &OperandFormats::weight,
               tensorFormatSchema()),
       yamlKey("gradient", "Of results of the backward pass",
               &OperandFormats::gradient, tensorFormatSchema())});
}

static bool isUpdate(OperationName name) {
  return name.getStringRef() == OptimizerUpdateOp::getOperationName();
}

/// Returns the names of the ops whose formats a policy may choose, without the
/// dialect prefix.
static std::vector<std::string> getOpNames(MLIRContext *context) {
  std::vector<std::string> names;
  for (RegisteredOperationName name : context->getRegisteredOperations())
    if (name.hasInterface<PrecisionOpInterface>() || isUpdate(name))
      names.push_back(name.stripDialect().str());
  return names;
}

static YamlSchema<std::string> opSchema() {
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

static YamlSchema<PolicySelector> selectorSchema() {
  return yamlMapping<PolicySelector>(
      "match",
      {yamlKey("op", "Name of an op, or a list of names", &PolicySelector::ops,
               yamlOneOrMore(opSchema())),
       yamlKey("name", "Name of a node; * matches any characters",
               &PolicySelector::name, globSchema()),
       yamlKey("phase", "Part of the training step", &PolicySelector::phase,
               yamlEnum(stringifyPhase, getMaxEnumValForPhase())),
       yamlKey("role", "Role of a tensor that the op reads or writes",
               &PolicySelector::role,
               yamlEnum(stringifyTensorRole, getMaxEnumValForTensorRole())),
       yamlKey(
           "layer", "The first or the last layer with a weight",
           &PolicySelector::layer,
           yamlEnum(stringifyLayerPosition, getMaxEnumValForLayerPosition()))});
}

/// Makes a key of the settings a key of the rule.
static YamlKey<PolicyRule> settingKey(YamlKey<PolicySettings> key) {
  auto read = [read = std::move(key.read)](YamlReader &reader, Node &node,
                                           PolicyRule &rule) {
    return read(reader, node, rule.settings);
  };
  return {std::move(key.name), std::move(read), std::move(key.schema)};
}

/// Checks that a rule is either about optimizer updates or about other ops.
static LogicalResult checkKind(YamlReader &reader, Node &node,
                               const PolicyRule &rule) {
  PolicySettings settings = rule.settings;
  bool ofUpdates = settings.areOfUpdates();
  std::string update =
      OperationName(OptimizerUpdateOp::getOperationName(), reader.getContext())
          .stripDialect()
          .str();
  for (const std::string &op : rule.match.ops)
    if ((op == update) != ofUpdates)
      return reader.error(
          node, ofUpdates ? "parameter, master, state and accumulator are "
                            "settings of '" +
                                update + "', not of '" + op + "'"
                          : "expected parameter, master, state or accumulator "
                            "for '" +
                                op + "', which computes in f32");
  if (!ofUpdates)
    return success();
  settings.parameter = settings.accumulator = {};
  settings.state = {};
  settings.master.reset();
  if (settings != PolicySettings())
    return reader.error(node, "a rule with parameter, master, state or "
                              "accumulator is about updates and sets nothing "
                              "else");
  std::string wrong = StorageAttr::explainViolation(
      rule.settings.parameter, rule.settings.master.value_or(Master::None),
      rule.settings.state.ofSigned, rule.settings.accumulator);
  return wrong.empty() ? success() : reader.error(node, wrong);
}

static LogicalResult finishRule(YamlReader &reader, Node &node,
                                PolicyRule &rule) {
  rule.origin = reader.getOrigin(node);
  rule.location = reader.getLoc(node);
  if (rule.settings == PolicySettings())
    return reader.error(node, "rule sets nothing; expected class, compute, "
                              "accumulate, result, saved, quantize, clamp, "
                              "parameter, master, state or accumulator");
  return checkKind(reader, node, rule);
}

YamlSchema<PolicyRule> mlir::binade::yamlRule() {
  return yamlMapping<PolicyRule>(
      "a rule",
      {yamlKey("match", "The ops that the rule applies to", &PolicyRule::match,
               selectorSchema()),
       settingKey(yamlKey("class",
                          "How well the ops tolerate the narrow format",
                          &PolicySettings::precisionClass,
                          yamlEnum(stringifyPrecisionClass,
                                   getMaxEnumValForPrecisionClass()))),
       settingKey(yamlKey("compute", "Format that operands are rounded to",
                          &PolicySettings::compute,
                          yamlFormat(kOperandFloats))),
       settingKey(yamlKey("accumulate", "Format of partial sums",
                          &PolicySettings::accumulate, yamlFormat(kSumFloats))),
       settingKey(yamlKey("result", "Format of the results",
                          &PolicySettings::result, yamlFormat())),
       settingKey(yamlKey("saved",
                          "Format in which the results are saved for the "
                          "backward pass",
                          &PolicySettings::saved, savedSchema())),
       settingKey(yamlKey("quantize",
                          "Formats to which operands of contractions are "
                          "quantized",
                          &PolicySettings::quantize, operandsSchema())),
       settingKey(yamlKey("parameter",
                          "Storage format of a parameter; for "
                          "optimizer_update",
                          &PolicySettings::parameter, yamlFormat())),
       settingKey(yamlKey(
           "master", "What preserves updates that the parameter's format loses",
           &PolicySettings::master,
           yamlEnum(stringifyMaster, getMaxEnumValForMaster()))),
       settingKey(yamlKey("state",
                          "Storage format of optimizer states; for "
                          "optimizer_update",
                          &PolicySettings::state, stateSchema())),
       settingKey(yamlKey("accumulator",
                          "Format of gradients accumulated over the batches of "
                          "a step; for optimizer_update",
                          &PolicySettings::accumulator, yamlFormat())),
       settingKey(yamlKey(
           "clamp",
           "How results that overflow stay finite: infinities become the "
           "largest finite value, or a tensor with infinities is clamped below "
           "it",
           &PolicySettings::clamp,
           yamlEnum(stringifyClamp, getMaxEnumValForClamp()))),
       yamlKey("optional", "Whether the rule may match nothing",
               &PolicyRule::isOptional, yamlFlag())},
      finishRule);
}
