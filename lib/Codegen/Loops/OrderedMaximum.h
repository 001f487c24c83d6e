//===- OrderedMaximum.h - Maxima of f32 as maxima of integers ---*- C++ -*-===//
//
// Computes maxima of f32 on CPUs. `maximum`, with its semantics for NaN and
// zeros, takes six instructions per vector. Mapping elements to integers in the
// same order, and computing the maximum of these, takes four. The maximum of
// negated elements is the negated minimum of the elements, from the same
// integers.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_ORDEREDMAXIMUM_H
#define BINADE_LIB_CODEGEN_LOOPS_ORDEREDMAXIMUM_H

#include "Reduction.h"

namespace mlir::binade {

/// A maximum reduction whose partial results are integers.
class OrderedMaximum {
public:
  /// Whether the partial results of `reduction` are computed in this way.
  /// Magnitudes are not: their bits are in order already.
  static bool isFor(const Reduction &reduction, const Emitter &e);

  explicit OrderedMaximum(const Reduction &reduction);

  /// Do the same as the functions of `Reduction`, but partial results are
  /// integers until `finish`.
  Value start(Emitter &e) const;
  Value accumulate(Emitter &e, Value partial, const Offset &offset) const;
  Value finish(Emitter &e, Value partial) const;

private:
  Value x;          ///< The elements, or those that are negated.
  bool isOfNegated; ///< Whether this is the maximum of -x: the negated minimum.
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_ORDEREDMAXIMUM_H
