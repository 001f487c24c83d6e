//===- Settings.h - hyper-parameters by parameter name ----------*- C++ -*-===//

#ifndef BINADE_LIB_OPTIMIZER_SETTINGS_H
#define BINADE_LIB_OPTIMIZER_SETTINGS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Values of a rule's hyper-parameters, in the rule's order.
using HyperValues = SmallVector<double>;

/// Parameters that share their hyper-parameters.
struct Group {
  HyperValues values;
  SmallVector<StringRef> parameters;
};

/// Reads `settings` (key=value) and `groups` (GLOB:key=value;...) against
/// `rule` and sorts `parameters` into groups of equal values, that of the
/// values without `groups` first where some parameter has them. Emits what is
/// wrong at `location`.
FailureOr<SmallVector<Group>> readSettings(OptimizerOp rule,
                                           ArrayRef<std::string> settings,
                                           ArrayRef<std::string> groups,
                                           ArrayRef<StringRef> parameters,
                                           Location location);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_SETTINGS_H
