//===- AttentionScores.h - Scores of attention ------------------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_ATTENTIONSCORES_H
#define BINADE_LIB_RAISING_ATTENTIONSCORES_H

#include "Composites.h"

namespace mlir::binade {

/// Splits `value` into a tensor and a constant factor, which may be 1.
std::pair<Value, double> takeScale(Composite &composite, Value value);

/// What attention computes from the products of queries and keys before the
/// softmax, by `binade.attention`: a scale, a soft cap, biases and masks.
class AttentionScores {
public:
  /// Matches the scores `value`, [..., queries, keys]. Fails if they are not
  /// such a function of products, or one that the op does not compute.
  LogicalResult match(Composite &composite, Value value);

  /// Sets the operands and attributes of `op`, whose scale is set already.
  /// `b` inserts before it.
  void apply(ImplicitLocOpBuilder &b, AttentionOp op) const;

  /// The products, to be multiplied by the scale.
  Value product;
  double scale = 1.0;

private:
  enum class Kind { Bias, Mask };
  /// A summand of the scores, or a condition of where they are replaced. The
  /// condition may also be a summand that is 0 or minus infinity.
  struct Term {
    Kind kind;
    Value value;
    /// For masks: whether scores are replaced where the condition holds, and by
    /// what.
    bool hidesWhereTrue = false;
    double fill = 0.0;
  };

  std::optional<Term> takeTerm(Composite &composite, Value &value) const;
  LogicalResult takeSoftcap(Composite &composite, Value &value);
  LogicalResult sortTerms(SmallVector<Term> terms, RankedTensorType type);

  SmallVector<Value> biases;
  std::optional<Term> mask;
  bool isCausal = false;
  double softcap = 0.0;
};

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_ATTENTIONSCORES_H
