//===- Settings.h - Rules and settings by parameter -------------*- C++ -*-===//

#ifndef BINADE_LIB_OPTIMIZER_SETTINGS_H
#define BINADE_LIB_OPTIMIZER_SETTINGS_H

#include "binade/IR/Rules.h"

namespace mlir::binade {

/// The setting that divides the rows of a parameter into heads: what a rule
/// computes by row, it computes by head.
inline constexpr StringLiteral kHeadsSetting = "heads";

/// Values of a rule's hyper-parameters, in the rule's order.
using HyperValues = SmallVector<double>;

/// A parameter that is trained.
struct TrainedParameter {
  StringRef name;
  ParameterKind kind;
  /// The form of the rule's `prepare` that replaces the one without a suffix;
  /// empty for none.
  std::string form = {};
  /// The number of heads into which the rows are divided; 0 for none.
  int64_t heads = 0;
  /// The rule that was imported with the graph, or null.
  OptimizerOp rule = {};
  bool isMatrix = false; ///< Whether it has two or more axes.
};

/// Emits an error that `rule` does not update parameters of this kind.
InFlightDiagnostic emitUnsupportedKind(Location location, OptimizerOp rule,
                                       const TrainedParameter &parameter);

/// Parameters that share a rule and its hyper-parameters.
struct Group {
  OptimizerOp rule;
  HyperValues values;
  SmallVector<TrainedParameter> parameters;
};

/// The user's settings, as text.
struct SettingTexts {
  StringRef variant;               ///< A name, or empty.
  SmallVector<std::string> common; ///< Each `key=value`.
  SmallVector<std::string> groups; ///< Each `GLOB:key=value;...`.
  /// Whether the weight decay of parameters that are not matrices is 0, unless
  /// the last group that matches sets it.
  bool decaysOnlyMatrices = false;
};

/// Reads `texts`, and sorts `parameters` into groups with one rule and equal
/// values. The second of `rules`, if there is one, is for the kinds of
/// parameters that the first does not update, unless parameters have rules of
/// their own. The group of the first rule with the values outside of groups
/// comes first, if some parameter belongs to it. Emits errors at `location`.
FailureOr<SmallVector<Group>>
readSettings(ArrayRef<OptimizerOp> rules, const SettingTexts &texts,
             ArrayRef<TrainedParameter> parameters, Location location);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_SETTINGS_H
