//===- PolicyForm.h - what may stand in a policy file -----------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_POLICYFORM_H
#define BINADE_LIB_PRECISION_POLICYFORM_H

#include "YamlForm.h"
#include "binade/Precision/Policy.h"

namespace mlir::binade {

/// The one definition of policy files: what reads them, and what editors are
/// told. Rules refer to the reader's context.
const YamlForm<Policy> &getPolicyForm();

/// The same of files of costs.
const YamlForm<TargetCosts> &getCostsForm();

/// Parts of a policy.
YamlForm<PolicyRule> yamlRule();
YamlForm<CutSettings> yamlCut();

/// A format of memory by its name in MLIR; with `ofOperands` also one that
/// operands are rounded to and memory has not.
YamlForm<FloatType> yamlFormat(bool ofOperands = false);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_POLICYFORM_H
