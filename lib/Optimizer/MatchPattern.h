//===- MatchPattern.h - Match a rule with a pattern -------------*- C++ -*-===//
//
// A pattern is a function of a file under Patterns/: the update of one element
// by a shipped rule, in the form in which a graph may contain it. Its arguments
// are (parameter, gradient, states..., number of the step: f32 or i64,
// hyper-parameters: f64), its results (parameter, states...). The name `@rule`
// or `@rule.form` refers to the rule, the attribute `hypers` names the
// hyper-parameters, and `settings` gives the values of those that it lacks.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_OPTIMIZER_MATCHPATTERN_H
#define BINADE_LIB_OPTIMIZER_MATCHPATTERN_H

#include "binade/IR/Rules.h"
#include "binade/Optimizer/RuleLibrary.h"

namespace mlir::binade {

/// Matches `rule` of a module with `pattern`, operation by operation; the
/// states may have another order. An f32 of the pattern that depends only on
/// hyper-parameters matches a constant of the rule. Returns values of the
/// hyper-parameters with which all such numbers, rounded to f32, equal the
/// constants bit by bit; of several, the values with the fewest digits. Returns
/// none if the rule does not match.
std::optional<Settings> matchPattern(OptimizerOp rule, func::FuncOp pattern);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_MATCHPATTERN_H
