//===- MomentumRule.h - Rules that accumulate in states ---------*- C++ -*-===//

#ifndef BINADE_LIB_PROGRAMS_MOMENTUMRULE_H
#define BINADE_LIB_PROGRAMS_MOMENTUMRULE_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// The rule that an optimizer applies to the gradient of one of several
/// batches.
struct MomentumRule {
  OptimizerOp rule;
  /// Whether a batch that is not the last may change the parameter.
  bool changesParameter = false;
};

/// Derives `@<rule>.<suffix>`, which adds the gradients of several batches one
/// by one to the rule's states, and updates the parameter if `isLast`. It has
/// one more hyper-parameter, `is_first`: 1 in the first batch of a step, else
/// 0.
///
/// This is correct if each state that depends on the gradient is `m' = F(p, m)
/// + b g`, where `b` depends only on scalars, and if the parameter depends on
/// the gradient only through `m'`: then with `g = g_1 + ... + g_k`
///
///     m_1 = F(p, m) + b g_1    m_i = m_(i-1) + b g_i    m' = m_k
///
/// Conditions may depend on what a `prepare` computes from the gradient, such
/// as whether it is finite in Tiger's. Each batch has its own condition, and if
/// it selects a change of the parameter without the states, the parameter
/// changes in any batch.
///
/// `prepares` are those of updates by the rule, `zeros` the scalars that are
/// known to be 0. Emits an error with the op that violates the condition.
FailureOr<MomentumRule> deriveMomentumRule(OptimizerOp rule,
                                           ArrayRef<func::FuncOp> prepares,
                                           const BitVector &zeros,
                                           StringRef suffix, bool isLast);

/// Returns which results of `@<rule>.scalars` are 0 in all steps if the
/// hyper-parameters have the values `hypers`.
BitVector findZeroScalars(OptimizerOp rule, ArrayRef<double> hypers);

} // namespace mlir::binade

#endif // BINADE_LIB_PROGRAMS_MOMENTUMRULE_H
