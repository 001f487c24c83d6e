//===- Composites.h - Matching spelled-out functions ------------*- C++ -*-===//

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

/// The ops that a composite consists of, while it is being matched.
class Composite {
public:
  explicit Composite(Operation *root) : ops{root} {}

  /// The `Op` that defines `value`, if this is its only use: it belongs to the
  /// composite then. Null otherwise.
  template <typename Op> Op take(Value value) {
    auto op = value.getDefiningOp<Op>();
    if (!op || !value.hasOneUse() || hasDecision(op))
      return {};
    ops.push_back(op);
    return op;
  }

  /// The same for a value whose other uses are inside the composite too;
  /// `isClosed` checks them in the end.
  template <typename Op> Op takeShared(Value value) {
    auto op = value.getDefiningOp<Op>();
    if (!op || hasDecision(op))
      return {};
    if (!llvm::is_contained(ops, op))
      ops.push_back(op);
    return op;
  }

  /// Adds ops to it; false where one has a decision.
  bool takeAll(ArrayRef<Operation *> added);

  bool contains(Operation *op) const { return llvm::is_contained(ops, op); }

  /// Whether nothing outside uses what is inside, but for the root's result
  /// and, if there are any, those of `open`.
  bool isClosed(ArrayRef<Value> open = {}) const;

  /// The factors of a product of single-use `mul` ops below `value`.
  SmallVector<Value> takeFactors(Value value);

  /// All nodes of the composite, the root's first.
  Location getLoc() const;

private:
  /// A decision on an inner op would be lost.
  static bool hasDecision(Operation *op);

  SmallVector<Operation *> ops;
};

/// The one value of a constant of floats, or nothing.
std::optional<APFloat> getSplat(Value value);

/// Whether every element of constant `value` is `number`, rounded to its
/// format.
bool isSplat(Value value, double number);

/// Removes one factor equal to `number`; false when there is none.
bool dropFactor(SmallVectorImpl<Value> &factors, double number);

/// Removes the only factor that `accept` accepts; null when there is none.
Value takeFactor(SmallVectorImpl<Value> &factors,
                 function_ref<bool(Value)> accept);

/// The operand of a `broadcast` that copies rows of one number per element of
/// the last axis; null for anything else.
Value getPerColumn(Value value);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_COMPOSITES_H
