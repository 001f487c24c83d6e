//===- UnitScalingRules.h - Rule table of unit scaling ----------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_ASSIGN_UNITSCALINGRULES_H
#define BINADE_LIB_PRECISION_ASSIGN_UNITSCALINGRULES_H

#include "binade/Precision/ExpectedScales.h"

namespace mlir::binade {

/// Returns the expected magnitude of `result` from those of the operands of its
/// op. `find` returns the magnitude of a value; that of an integer is 0.
ExpectedScale
applyUnitScalingRule(OpResult result,
                     llvm::function_ref<ExpectedScale(Value)> find);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_ASSIGN_UNITSCALINGRULES_H
