//===- OnlineSum.h - Softmax statistics in one pass -------------*- C++ -*-===//
//
// The sum of exp(x - maximum) needs the maximum of a row first, and with it a
// pass of its own. An online sum (Milakov, Gimelshein 2018) takes an element of
// the thread in its place, the reference, and rescales the sum when a much
// larger one is found:
//
//   next = max(x...) > reference + slack ? max(x...) : reference
//   sum = sum * exp(reference - next) + exp(x - next) + ...
//
// The error of a row grows by two roundings and an exponential for each time
// that a thread changes its reference, which is small compared with that of the
// additions.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_ONLINESUM_H
#define BINADE_LIB_CODEGEN_LOOPS_ONLINESUM_H

#include "Reduction.h"

namespace mlir::binade {

/// A maximum of x, and a sum of exp(x - maximum).
struct OnlineSum {
  Reduction maximum, sum;
  /// That of the exponentials; null for f32.
  FloatType accuracy;

  /// Returns the pair whose second reduction is `sum`, if it is one.
  static std::optional<OnlineSum> from(Reduction sum);

  /// Partial sums of a thread, a vector, and what they are relative to, an f32.
  struct Partial {
    Value sums, reference;
  };

  /// Returns a thread's reference before the first element.
  Value start(Emitter &emitter) const;
  /// Returns `partial` with the elements `x`, vectors of lanes. `maxima` are
  /// the partial results of the maximum, with these elements.
  Partial accumulate(Emitter &emitter, Partial partial, Value maxima,
                     ArrayRef<Value> x) const;
  /// Returns the sum of all threads. The maximum of the row is `total`.
  Value finish(Emitter &emitter, Partial partial, Value total) const;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_ONLINESUM_H
