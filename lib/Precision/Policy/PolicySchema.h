//===- PolicySchema.h - what may stand in a policy file ---------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_POLICY_POLICYSCHEMA_H
#define BINADE_LIB_PRECISION_POLICY_POLICYSCHEMA_H

#include "binade/Config/YamlSchema.h"
#include "binade/Precision/Policy.h"

namespace mlir::binade {

/// The one definition of policy files: what reads them, and what editors are
/// told. Rules refer to the reader's context.
const YamlSchema<Policy> &getPolicyFileSchema();

/// The same of files of costs.
const YamlSchema<TargetCosts> &getCostsFileSchema();

/// Parts of a policy.
YamlSchema<PolicyRule> yamlRule();
YamlSchema<CutSettings> yamlCut();

/// What the action of an alarm begins with that names a policy.
inline constexpr StringLiteral kSwitchWord = "switch:";

/// Names of floats: that ops compute in and memory holds, and that codes or
/// what waits may have besides. Other formats of MLIR are no target's.
inline constexpr std::array<StringLiteral, 3> kComputedFloats = {"f32", "bf16",
                                                                 "f16"};
inline constexpr std::array<StringLiteral, 7> kByteFloats = {
    "f8E4M3FN",   "f8E5M2",     "f8E4M3",       "f8E3M4",
    "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ"};

/// One of the floats `names`.
YamlSchema<FloatType>
yamlFormat(ArrayRef<StringLiteral> names = kComputedFloats);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_POLICY_POLICYSCHEMA_H
