//===- PolicySchema.h - Schema of policy files ------------------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_POLICY_POLICYSCHEMA_H
#define BINADE_LIB_PRECISION_POLICY_POLICYSCHEMA_H

#include "binade/Config/YamlSchema.h"
#include "binade/IR/Formats.h"
#include "binade/Precision/Policy.h"

namespace mlir::binade {

/// Returns the schema of policy files, which parses them and generates the JSON
/// schema for editors. Parsed rules refer to the reader's context.
const YamlSchema<Policy> &getPolicyFileSchema();

/// Returns the schema of files of costs.
const YamlSchema<TargetCosts> &getCostsFileSchema();

/// Schemas of parts of a policy.
YamlSchema<PolicyRule> yamlRule();
YamlSchema<PolicySelector> yamlSelector();
YamlSchema<ProductTransform> yamlTransform();
/// The key `accumulate`: a format, or a model of an accumulator.
YamlKey<PolicySettings> yamlAccumulate();
YamlSchema<CutSettings> yamlCut();
YamlSchema<std::vector<PolicySwitch>> yamlSchedule();
/// Parses a number of `things` in [min, max], or a share of them.
YamlSchema<CountOrShare> yamlCountOrShare(StringRef things, int64_t min,
                                          int64_t max);
/// Parses the name of a quantized format for tensors.
YamlSchema<QuantizedAttr> yamlTensorFormat();

/// Returns why no matmul that `rule` matches can have its accumulator, or an
/// empty string.
std::string explainUnaccumulated(const PolicyRule &rule);

/// The prefix of an alarm's action that switches to another policy.
inline constexpr StringLiteral kSwitchWord = "switch:";

/// Parses the name of one of the float types `names`.
YamlSchema<FloatType>
yamlFormat(ArrayRef<StringLiteral> names = kComputedFloats);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_POLICY_POLICYSCHEMA_H
