//===- Axes.h - Permutations of axes ----------------------------*- C++ -*-===//

#ifndef BINADE_IR_AXES_H
#define BINADE_IR_AXES_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Permutes the axes of `x`; returns `x` itself for the identity.
Value buildTranspose(ImplicitLocOpBuilder &b, Value x,
                     ArrayRef<int64_t> permutation);
/// Returns the permutation that moves `axis` to the end and keeps the order of
/// the others.
SmallVector<int64_t> getAxisLast(int64_t rank, int64_t axis);

} // namespace mlir::binade

#endif // BINADE_IR_AXES_H
