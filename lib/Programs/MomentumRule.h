//===- MomentumRule.h - rules whose states take in gradients ----*- C++ -*-===//

#ifndef BINADE_LIB_PROGRAMS_MOMENTUMRULE_H
#define BINADE_LIB_PROGRAMS_MOMENTUMRULE_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// What an optimizer does with the gradient of one of several batches.
struct MomentumRule {
  OptimizerOp rule;
  /// Whether a batch that is not the last may change the parameter.
  bool changesParameter = false;
};

/// Derives `@<rule>.<suffix>`, which takes the gradients of several batches one
/// by one into the rule's states, and updates the parameter if `isLast`. It has
/// one more hyper-parameter, `is_first`: 1 in the first batch of a step, else
/// 0.
///
/// That is right where each state that reads the gradient is
/// `m' = F(p, m) + b g` with a `b` of scalars alone, and the parameter reads
/// the gradient by `m'` alone: then with `g = g_1 + ... + g_k`
///
///     m_1 = F(p, m) + b g_1    m_i = m_(i-1) + b g_i    m' = m_k
///
/// Choices may go by what a `prepare` says of the gradient, as Tiger's does
/// where that is not finite; each batch has its own, and where one has the
/// parameter change without the states, it changes in any batch.
///
/// `prepares` are those of updates by the rule, `zeros` the scalars that are
/// known to be 0. Fails with the op that stands against it.
FailureOr<MomentumRule> deriveMomentumRule(OptimizerOp rule,
                                           ArrayRef<func::FuncOp> prepares,
                                           const BitVector &zeros,
                                           StringRef suffix, bool isLast);

/// The results of `@<rule>.scalars` that are 0 in all steps if the
/// hyper-parameters have these values.
BitVector findZeroScalars(OptimizerOp rule, ArrayRef<double> hypers);

} // namespace mlir::binade

#endif // BINADE_LIB_PROGRAMS_MOMENTUMRULE_H
