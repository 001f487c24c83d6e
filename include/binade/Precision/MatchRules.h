//===- MatchRules.h - what the rules of a policy match ----------*- C++ -*-===//

#ifndef BINADE_PRECISION_MATCHRULES_H
#define BINADE_PRECISION_MATCHRULES_H

#include "binade/Precision/PrecisionGraph.h"

namespace mlir::binade {

/// The ops of a training step that one rule speaks of, or that no rule speaks
/// of and that have one class.
struct RuleMatches {
  /// "file:line", or "class NAME".
  std::string origin;
  /// Null for a class.
  const PolicyRule *rule = nullptr;
  /// Ops that match, and of these the ones that no later rule matches.
  int64_t matched = 0, decided = 0;
  /// Names of the first ops decided: "matmul at 'node'".
  std::vector<std::string> examples = {};
};

/// One entry per rule in their order, then one per class that decides.
std::vector<RuleMatches> matchRules(const PrecisionGraph &graph);

/// An error for each rule of a user's file that matches nothing and does not
/// say that it may: it has a typing error. Shipped policies name ops that a
/// model may lack.
LogicalResult checkRules(const PrecisionGraph &graph);

} // namespace mlir::binade

#endif // BINADE_PRECISION_MATCHRULES_H
