//===- MatchPattern.h - an update as an exporter wrote it -------*- C++ -*-===//
//
// A pattern is a function of a file under Spellings/: the update of one
// element by a rule of the library, as a graph may have it. It takes
// (parameter, gradient, states..., number of the step: f32, hyper-parameters:
// f64) and returns (parameter, states...). `@rule` or `@rule.form` names the
// rule, `hyper` on an argument the hyper-parameter, `settings` on the function
// the values of those that it lacks.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_OPTIMIZER_MATCHPATTERN_H
#define BINADE_LIB_OPTIMIZER_MATCHPATTERN_H

#include "binade/IR/Rules.h"
#include "binade/Optimizer/RuleLibrary.h"

namespace mlir::binade {

/// Matches `rule` of a module, operation by operation; its states may be in
/// another order. A number of the pattern that depends on hyper-parameters
/// alone stands for a constant of the rule: values are found such that all of
/// them, rounded to f32, are those constants to the last bit. Of the values
/// that are, the one with the fewest digits is taken.
std::optional<Settings> matchPattern(OptimizerOp rule, func::FuncOp pattern);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_MATCHPATTERN_H
