//===- OrderedMaximum.h - maxima of f32 as maxima of integers ---*- C++ -*-===//
//
// What `maximum` says of NaN and of zeros takes a CPU six instructions. Here
// elements become integers in the same order, so that it takes four; the
// largest of negated elements has the same integers as the largest.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_ORDEREDMAXIMUM_H
#define BINADE_LIB_CODEGEN_LOOPS_ORDEREDMAXIMUM_H

#include "Reduction.h"

namespace mlir::binade {

class OrderedMaximum {
public:
  /// Whether the partial results of `reduction` are to be made so.
  static bool isFor(const Reduction &reduction, const Emitter &e);

  explicit OrderedMaximum(const Reduction &reduction);

  /// As those of `Reduction`, but that lanes are integers until `finish`.
  Value start(Emitter &e) const;
  Value accumulate(Emitter &e, Value partial, const Offset &offset) const;
  Value finish(Emitter &e, Value partial) const;

private:
  Value x;          ///< What has the elements, or their negatives.
  bool isOfNegated; ///< Whether the maximum is that of -x: -min x.
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_ORDEREDMAXIMUM_H
