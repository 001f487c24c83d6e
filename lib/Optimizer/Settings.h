//===- Settings.h - rules and hyper-parameters by parameter -----*- C++ -*-===//

#ifndef BINADE_LIB_OPTIMIZER_SETTINGS_H
#define BINADE_LIB_OPTIMIZER_SETTINGS_H

#include "binade/IR/Rules.h"

namespace mlir::binade {

/// Values of a rule's hyper-parameters, in the rule's order.
using HyperValues = SmallVector<double>;

/// A parameter that is trained.
struct TrainedParameter {
  StringRef name;
  ParameterKind kind;
  /// Which form of the rule's `prepare` takes the place of the one without a
  /// name; empty for none.
  std::string form = {};
  /// The rule that came with the graph, or null.
  OptimizerOp rule = {};
};

/// Emits that `rule` is for no such parameter.
InFlightDiagnostic emitIsForNo(Location location, OptimizerOp rule,
                               const TrainedParameter &parameter);

/// Parameters that share a rule and its hyper-parameters.
struct Group {
  OptimizerOp rule;
  HyperValues values;
  SmallVector<TrainedParameter> parameters;
};

/// Reads `variant` (a name or empty), `settings` (key=value) and `groups`
/// (GLOB:key=value;...) against `rules`, of which the second, if there is one,
/// is for the kinds of parameters that the first is not for unless parameters
/// have rules of their own, and sorts `parameters` into groups of one rule and
/// equal values, that of the first rule and the values without `groups` first
/// where some parameter has them. Emits what is wrong at `location`.
FailureOr<SmallVector<Group>>
readSettings(ArrayRef<OptimizerOp> rules, StringRef variant,
             ArrayRef<std::string> settings, ArrayRef<std::string> groups,
             ArrayRef<TrainedParameter> parameters, Location location);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_SETTINGS_H
