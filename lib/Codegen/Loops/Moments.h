//===- Moments.h - a sum and a variance from one pass -----------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_MOMENTS_H
#define BINADE_LIB_CODEGEN_LOOPS_MOMENTS_H

#include "Reduction.h"

namespace mlir::binade {

/// sum (x - mean)^2 with mean = sum x / count: two reductions that are made
/// from one pass.
struct Moments {
  Reduction sum, squares;
  Value x;
};

/// Whether `squares` is the second of such a pair; the first is one of
/// `reductions`.
std::optional<Moments> findMoments(Reduction squares,
                                   ArrayRef<Reduction> reductions);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_MOMENTS_H
