//===- Axes.h - Axes in another order ---------------------------*- C++ -*-===//

#ifndef BINADE_IR_AXES_H
#define BINADE_IR_AXES_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Axes in another order; `x` itself for the identity.
Value buildTranspose(ImplicitLocOpBuilder &b, Value x,
                     ArrayRef<int64_t> permutation);
/// Axis `axis` moved to the end, the others in their order.
SmallVector<int64_t> getAxisLast(int64_t rank, int64_t axis);

} // namespace mlir::binade

#endif // BINADE_IR_AXES_H
