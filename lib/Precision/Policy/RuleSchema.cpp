//===- RuleSchema.cpp - Schema of the rules of a policy -------------------===//

#include "PolicySchema.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/ScaledOperand.h"

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

YamlSchema<QuantizedAttr> mlir::binade::yamlTensorFormat() {
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
  if (succeeded(found) && found->correctsScales())
    return emitError(location)
           << "format '" << name << "' is unbiased only for values that were "
           << "rotated at random; expected a format of values that are saved";
  return failed(found) ? FailureOr<Attribute>() : Attribute(*found);
}

static YamlSchema<Attribute> savedSchema() {
  return namedSchema("a format such as bf16 or coat-group", findSavedFormat);
}

/// Checks that operands whose scales are corrected are rotated at random, in
/// groups that have one correction.
static LogicalResult checkRotation(YamlReader &reader, Node &node,
                                   const OperandFormats &formats) {
  for (QuantizedAttr format :
       {formats.activation, formats.weight, formats.gradient}) {
    if (!format || !format.correctsScales())
      continue;
    int64_t size = format.getCorrectedSize();
    TransformAttr found = formats.transform.transform;
    if (!found || found.getHadamard() != size ||
        found.getSigns() != HadamardSigns::Step)
      return reader.error(
          node, "a format with rule 'rounded_eden' is unbiased only if both "
                "operands of its product are rotated at random; expected "
                "fprop, dgrad or wgrad with transform: { hadamard: " +
                    Twine(size) + ", signs: step }");
  }
  return success();
}

using FormatMember = QuantizedAttr OperandFormats::*;

/// The operands of a product: their keys, what they are, and members.
struct OperandKey {
  StringLiteral name, help;
  FormatMember member;
};
static const OperandKey kOperandKeys[] = {
    {"activation", "Of results of the forward pass",
     &OperandFormats::activation},
    {"weight", "Of parameters", &OperandFormats::weight},
    {"gradient", "Of results of the backward pass", &OperandFormats::gradient}};

/// Returns the key of the product `index`, which reads all operands but
/// `other`.
static YamlKey<ProductFormats> productKey(size_t index, StringRef help,
                                          FormatMember other) {
  std::vector<YamlKey<OperandFormats>> keys;
  for (const OperandKey &key : kOperandKeys)
    if (key.member != other)
      keys.push_back(
          yamlKey(key.name, key.help, key.member, yamlTensorFormat()));
  keys.push_back(yamlKey("transform",
                         "Transform of both operands before they are quantized",
                         &OperandFormats::transform, yamlTransform()));
  auto check = [other](YamlReader &reader, Node &node,
                       OperandFormats &formats) -> LogicalResult {
    unsigned count = 0;
    for (const OperandKey &key : kOperandKeys)
      count += key.member != other && formats.*key.member;
    if (count == 1)
      return reader.error(node, "a product quantizes both of its operands, or "
                                "none; found a format for one of them");
    if (count == 0 && formats.transform)
      return emitError(formats.transform.location)
             << "transform of a product whose operands are not quantized; "
                "expected formats for both";
    return checkRotation(reader, node, formats);
  };
  StringRef name = kLayerProducts[index];
  YamlSchema<OperandFormats> schema =
      yamlMapping<OperandFormats>(name, std::move(keys), check);
  schema.schema["description"] = help;
  return {name.str(),
          [index, read = schema.read](YamlReader &reader, Node &node,
                                      ProductFormats &formats) {
            return read(reader, node, formats.own[index].emplace());
          },
          std::move(schema.schema)};
}

static YamlSchema<ProductFormats> operandsSchema() {
  std::vector<YamlKey<ProductFormats>> keys;
  for (const OperandKey &key : kOperandKeys) {
    YamlSchema<QuantizedAttr> form = yamlTensorFormat();
    form.schema["description"] = key.help;
    keys.push_back(
        {key.name.str(),
         [member = key.member, read = form.read](YamlReader &reader, Node &node,
                                                 ProductFormats &formats) {
           return read(reader, node, formats.common.*member);
         },
         std::move(form.schema)});
  }
  keys.push_back(productKey(0, "Operands of the forward product",
                            &OperandFormats::gradient));
  keys.push_back(productKey(1, "Operands of the gradient of the input",
                            &OperandFormats::activation));
  keys.push_back(productKey(2, "Operands of the gradient of the weight",
                            &OperandFormats::weight));
  return yamlMapping<ProductFormats>(
      "formats of operands", std::move(keys),
      [](YamlReader &reader, Node &node, ProductFormats &formats) {
        return checkRotation(reader, node, formats.common);
      });
}

static YamlSchema<UnitScaling> unitScaleSchema() {
  std::vector<StringLiteral> formats(kComputedFloats.begin(),
                                     kComputedFloats.end());
  llvm::append_range(formats, kByteFloats);
  return yamlMapping<UnitScaling>(
      "unit_scale",
      {yamlKey("activation", "Of results of the forward pass",
               &UnitScaling::activation, yamlFormat(formats)),
       yamlKey("weight", "Of parameters", &UnitScaling::weight,
               yamlFormat(formats)),
       yamlKey("gradient", "Of results of the backward pass",
               &UnitScaling::gradient, yamlFormat(formats))},
      [](YamlReader &reader, Node &node, UnitScaling &found) {
        for (auto [key, format] : {std::pair("activation", found.activation),
                                   std::pair("weight", found.weight),
                                   std::pair("gradient", found.gradient)})
          if (!format)
            return reader.error(node, Twine("unit_scale has no '") + key +
                                          "'; it scales all operands");
        return success();
      });
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

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

/// Checks that a rule with `unit_scale` is about products whose operands can be
/// scaled, and rounds their operands in no other way.
static LogicalResult checkUnitScale(YamlReader &reader, Node &node,
                                    const PolicyRule &rule) {
  if (!rule.settings.unitScale)
    return success();
  std::string known = joinNames(kScalableOps);
  if (rule.match.ops.empty())
    return reader.error(node,
                        "a rule with unit_scale matches an 'op': " + known);
  for (const std::string &op : rule.match.ops)
    if (!llvm::is_contained(kScalableOps, op))
      return reader.error(node, "unit_scale is for " + known + ", not for '" +
                                    op + "'");
  if (rule.settings.quantize)
    return reader.error(node, "unit_scale has constant scales, and quantize "
                              "computes them in each step; expected one of "
                              "them");
  if (rule.settings.result && rule.settings.result.isF16())
    return reader.error(node, "unit_scale needs a result in f32 or bf16: f16 "
                              "could not represent the product without its "
                              "scale");
  return success();
}

static LogicalResult finishRule(YamlReader &reader, Node &node,
                                PolicyRule &rule) {
  rule.origin = reader.getOrigin(node);
  rule.location = reader.getLoc(node);
  if (rule.settings == PolicySettings())
    return reader.error(
        node, "rule sets nothing; expected class, compute, accumulate, result, "
              "saved, quantize, unit_scale, clamp, parameter, master, state or "
              "accumulator");
  if (std::string wrong = explainUnaccumulated(rule); !wrong.empty())
    return emitError(rule.settings.accumulation.location) << wrong;
  if (failed(checkUnitScale(reader, node, rule)))
    return failure();
  return checkKind(reader, node, rule);
}

YamlSchema<PolicyRule> mlir::binade::yamlRule() {
  return yamlMapping<PolicyRule>(
      "a rule",
      {yamlKey("match", "The ops that the rule applies to", &PolicyRule::match,
               yamlSelector()),
       settingKey(yamlKey("class",
                          "How well the ops tolerate the narrow format",
                          &PolicySettings::precisionClass,
                          yamlEnum(stringifyPrecisionClass,
                                   getMaxEnumValForPrecisionClass()))),
       settingKey(yamlKey("compute", "Format that operands are rounded to",
                          &PolicySettings::compute,
                          yamlFormat(kOperandFloats))),
       settingKey(yamlAccumulate()),
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
       settingKey(yamlKey("unit_scale",
                          "Formats to which operands of matmuls and "
                          "convolutions are rounded after a multiplication by "
                          "a constant power of two",
                          &PolicySettings::unitScale, unitScaleSchema())),
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
