//===- ExpectedScales.h - Expected magnitudes of values ---------*- C++ -*-===//

#ifndef BINADE_PRECISION_EXPECTEDSCALES_H
#define BINADE_PRECISION_EXPECTEDSCALES_H

#include "binade/Precision/StepEvidence.h"

namespace mlir::binade {

/// The expected magnitude of the elements of a value.
struct ExpectedScale {
  ExpectedScale(double rms = 0.0, bool isPositive = false, StringRef rule = {})
      : rms(rms), isPositive(isPositive), rule(rule) {}

  /// The root mean square; 0 if all elements are expected to be 0.
  double rms;
  /// Whether elements have one sign, so that a sum of n of them is n times as
  /// large, and not the square root of n.
  bool isPositive;
  /// The rule that gave the magnitude; interned.
  StringRef rule;
  /// The number of the first value of the step that it depends on, apart from
  /// parameters and constants; 0 if there is none.
  unsigned source = 0;
};

/// The expected magnitudes of the values of a training step at its initial
/// parameters, by the rule table of unit scaling (Blake, Orr, Luschi: Unit
/// Scaling, arXiv 2303.11257): each op multiplies the magnitudes of its
/// operands by a factor that follows from shapes. Magnitudes of parameters are
/// those of their initial values, and inputs are expected to have magnitude 1.
/// Recorded magnitudes replace those of the table.
class ExpectedScales {
public:
  /// `evidence` is null without recorded ranges.
  ExpectedScales(func::FuncOp step, const Policy &policy,
                 const StepEvidence *evidence);

  /// Returns the exponent of the power of two that brings the magnitude of
  /// `value` closest to 1.
  int64_t getExponent(Value value) const;
  /// Returns the rule that gave the magnitude of `value`; interned.
  StringRef getRule(Value value) const { return scales.lookup(value).rule; }

private:
  void addArguments(func::FuncOp step, const Policy &policy);
  void visit(Operation *op, const Policy &policy);
  unsigned findSource(Operation *op) const;
  bool isResidual(Operation *op) const;

  DenseMap<Value, ExpectedScale> scales;
  unsigned sources = 0;
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_EXPECTEDSCALES_H
