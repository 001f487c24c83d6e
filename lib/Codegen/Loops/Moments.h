//===- Moments.h - Sum and variance in one pass -----------------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_MOMENTS_H
#define BINADE_LIB_CODEGEN_LOOPS_MOMENTS_H

#include "Reduction.h"

namespace mlir::binade {

/// A sum, and a sum (x - mean)^2 where mean = sum x / count: two reductions
/// that one pass over the elements computes.
struct Moments {
  Reduction sum, squares;
  Value x;
};

/// Returns the pair if `squares` is its second reduction and `reductions`
/// contains the first.
std::optional<Moments> findMoments(Reduction squares,
                                   ArrayRef<Reduction> reductions);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_MOMENTS_H
