//===- Composites.h - Matching of composites --------------------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_COMPOSITES_H
#define BINADE_LIB_RAISING_COMPOSITES_H

#include "binade/IR/Build.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::binade {

void populateActivationPatterns(RewritePatternSet &patterns);
void populateAnglePatterns(RewritePatternSet &patterns);
void populateAttentionPatterns(RewritePatternSet &patterns);
void populateHiddenRowPatterns(RewritePatternSet &patterns);
void populateLinearPatterns(RewritePatternSet &patterns);
void populateLossPatterns(RewritePatternSet &patterns);
void populateNormalizationPatterns(RewritePatternSet &patterns);
void populateSoftmaxPatterns(RewritePatternSet &patterns);

/// Collects the ops of a composite while it is being matched.
class Composite {
public:
  explicit Composite(Operation *root) : ops{root} {}

  /// Adds the `Op` that defines `value` to the composite and returns it, if
  /// this is its only use; otherwise returns null.
  template <typename Op> Op take(Value value) {
    auto op = value.getDefiningOp<Op>();
    if (!op || !value.hasOneUse() || hasDecision(op))
      return {};
    ops.push_back(op);
    return op;
  }

  /// Adds the `Op` that defines `value` to the composite even if it has other
  /// uses. These have to be in the composite, too, which `isClosed` checks at
  /// the end.
  template <typename Op> Op takeShared(Value value) {
    auto op = value.getDefiningOp<Op>();
    if (!op || hasDecision(op))
      return {};
    if (!llvm::is_contained(ops, op))
      ops.push_back(op);
    return op;
  }

  /// Adds ops to the composite; returns false if one has a decision.
  bool takeAll(ArrayRef<Operation *> added);

  bool contains(Operation *op) const { return llvm::is_contained(ops, op); }

  /// Whether no op outside the composite uses results inside, except for the
  /// root's result and those in `open`.
  bool isClosed(ArrayRef<Value> open = {}) const;

  /// Returns the factors of the product `value`, through `mul` ops with a
  /// single use.
  SmallVector<Value> takeFactors(Value value);

  /// Returns the fused location of all ops of the composite, the root first.
  Location getLoc() const;

private:
  /// Whether `op` has a decision, which the rewrite would lose.
  static bool hasDecision(Operation *op);

  SmallVector<Operation *> ops;
};

/// Returns the element of a splat constant of floats, or nothing.
std::optional<APFloat> getSplat(Value value);

/// Whether `value` is a splat constant of `number`, rounded to its format.
bool isSplat(Value value, double number);

/// Removes a factor equal to `number`; returns false if there is none.
bool dropFactor(SmallVectorImpl<Value> &factors, double number);

/// Removes and returns the first factor that `accept` accepts; null if there is
/// none.
Value takeFactor(SmallVectorImpl<Value> &factors,
                 function_ref<bool(Value)> accept);

/// Returns the value that `condition` tests for NaN, and adds the ops of the
/// test to `ops`; null for other conditions.
Value getTestedForNaN(Value condition, SmallVectorImpl<Operation *> &ops);

/// Returns the operand of a `broadcast` of a vector along all axes but the
/// last; null for other values.
Value getPerColumn(Value value);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_COMPOSITES_H
