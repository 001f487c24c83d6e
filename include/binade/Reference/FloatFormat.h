//===- FloatFormat.h - Rounding to any float format -------------*- C++ -*-===//

#ifndef BINADE_REFERENCE_FLOATFORMAT_H
#define BINADE_REFERENCE_FLOATFORMAT_H

#include "llvm/ADT/APFloat.h"

namespace mlir::binade {

/// A float format of at most 64 bits, described by APFloat's semantics, so that
/// it also works for new formats. A double represents every value of such a
/// format.
struct FloatFormat {
  explicit FloatFormat(const llvm::fltSemantics &semantics);

  /// Rounds `x` to the nearest value of this format, ties to even, in one
  /// rounding and with subnormals. A result beyond the largest finite value
  /// becomes that value with `saturate` (or if the format has neither infinity
  /// nor NaN); otherwise it becomes infinity, or NaN in formats without
  /// infinity.
  double round(double x, bool saturate = false) const;

  /// Rounds `x` stochastically to one of the two neighbouring values of this
  /// format: away from zero if `random`, in [0, 1), is less than the distance
  /// from the inner one in units of the spacing.
  double roundRandomly(double x, double random, bool saturate = false) const;

  /// Returns the distance between neighbouring values at `x`; infinite or NaN
  /// if `x` is.
  double getSpacing(double x) const;

  /// Returns half of the relative distance between neighbouring values:
  /// 2^-precision.
  double getRoundoff() const;

  /// Returns the bits of `x`, a value of this format. NaN becomes the format's
  /// canonical quiet NaN.
  uint64_t encode(double x) const;
  double decode(uint64_t bits) const;

  const llvm::fltSemantics &semantics;
  int precision; ///< Bits of the significand, including the leading one.
  int minExponent;
  unsigned width; ///< In bits.
  double largest, smallest;
  bool hasInf, hasNaN, hasSign, hasZero, hasNegativeZero;
};

} // namespace mlir::binade

#endif // BINADE_REFERENCE_FLOATFORMAT_H
