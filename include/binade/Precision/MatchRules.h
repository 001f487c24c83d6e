//===- MatchRules.h - Which ops the rules of a policy match -----*- C++ -*-===//

#ifndef BINADE_PRECISION_MATCHRULES_H
#define BINADE_PRECISION_MATCHRULES_H

#include "binade/Precision/PrecisionGraph.h"

namespace mlir::binade {

/// The ops of a training step that one rule matches, or that no rule matches
/// and that have one class.
struct RuleMatches {
  /// "file:line", or "class NAME".
  std::string origin;
  /// Null for a class.
  const PolicyRule *rule = nullptr;
  /// The ops that match, and those of them that no later rule matches.
  int64_t matched = 0, decided = 0;
  /// Names of the first decided ops: "matmul at 'node'".
  std::vector<std::string> examples = {};
};

/// Returns one entry per rule, in order, then one per class that decides an op.
std::vector<RuleMatches> matchRules(const PrecisionGraph &graph);

/// Emits an error for each rule of a user's file that matches nothing and is
/// not `optional`, because it is likely misspelled. Rules of shipped policies
/// may name ops that a model lacks.
LogicalResult checkRules(const PrecisionGraph &graph);

} // namespace mlir::binade

#endif // BINADE_PRECISION_MATCHRULES_H
