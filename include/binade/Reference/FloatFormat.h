//===- FloatFormat.h - rounding to any float format -------------*- C++ -*-===//

#ifndef BINADE_REFERENCE_FLOATFORMAT_H
#define BINADE_REFERENCE_FLOATFORMAT_H

#include "llvm/ADT/APFloat.h"

namespace mlir::binade {

/// A float format of at most 64 bits, described by numbers. Everything follows
/// from APFloat's semantics of the type: formats not yet invented work too.
/// Every value of such a format is a double.
struct FloatFormat {
  explicit FloatFormat(const llvm::fltSemantics &semantics);

  /// The number of this format nearest to `x`, ties to even, in one rounding
  /// and with subnormals. What lies beyond the largest finite number after
  /// rounding becomes that number with `saturate` (or where the format has
  /// nothing else), otherwise infinity, or NaN in formats without infinity.
  double round(double x, bool saturate = false) const;

  /// One of the two numbers of this format around `x`: that further from zero
  /// where `random`, in [0, 1), is less than the fraction of the way there.
  double roundRandomly(double x, double random, bool saturate = false) const;

  /// Distance of neighbouring numbers at `x`; infinite or NaN where `x` is.
  double getSpacing(double x) const;

  /// Half of the relative distance of neighbours: 2^-precision.
  double getRoundoff() const;

  /// The bits of `x`, which is a number of this format. NaN is the format's
  /// canonical quiet NaN.
  uint64_t encode(double x) const;
  double decode(uint64_t bits) const;

  const llvm::fltSemantics &semantics;
  int precision; ///< Bits of the significand, the leading one included.
  int minExponent;
  unsigned width; ///< In bits.
  double largest, smallest;
  bool hasInf, hasNaN, hasSign, hasZero, hasNegativeZero;
};

} // namespace mlir::binade

#endif // BINADE_REFERENCE_FLOATFORMAT_H
