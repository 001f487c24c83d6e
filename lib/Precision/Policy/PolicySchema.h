//===- PolicySchema.h - Schema of policy files ------------------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_POLICY_POLICYSCHEMA_H
#define BINADE_LIB_PRECISION_POLICY_POLICYSCHEMA_H

#include "binade/Config/YamlSchema.h"
#include "binade/Precision/Policy.h"

namespace mlir::binade {

/// Returns the schema of policy files, which parses them and generates the JSON
/// schema for editors. Parsed rules refer to the reader's context.
const YamlSchema<Policy> &getPolicyFileSchema();

/// Returns the schema of files of costs.
const YamlSchema<TargetCosts> &getCostsFileSchema();

/// Schemas of parts of a policy.
YamlSchema<PolicyRule> yamlRule();
YamlSchema<CutSettings> yamlCut();

/// The prefix of an alarm's action that switches to another policy.
inline constexpr StringLiteral kSwitchWord = "switch:";

/// Names of float types: those in which ops compute and memory stores values,
/// and those that only quantized and saved values may have. No target supports
/// MLIR's other float types.
inline constexpr std::array<StringLiteral, 3> kComputedFloats = {"f32", "bf16",
                                                                 "f16"};
inline constexpr std::array<StringLiteral, 7> kByteFloats = {
    "f8E4M3FN",   "f8E5M2",     "f8E4M3",       "f8E3M4",
    "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ"};

/// Parses the name of one of the float types `names`.
YamlSchema<FloatType>
yamlFormat(ArrayRef<StringLiteral> names = kComputedFloats);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_POLICY_POLICYSCHEMA_H
