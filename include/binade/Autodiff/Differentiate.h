//===- Differentiate.h - gradients by the adjoints of ops -------*- C++ -*-===//

#ifndef BINADE_AUTODIFF_DIFFERENTIATE_H
#define BINADE_AUTODIFF_DIFFERENTIATE_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// Adds to `function` the gradients of its result `loss`, which has one
/// element, as a result for each argument of the role parameter that the loss
/// depends on. Emits an error where it depends on parameters through an op
/// without derivative.
LogicalResult differentiate(func::FuncOp function, unsigned loss);

} // namespace mlir::binade

#endif // BINADE_AUTODIFF_DIFFERENTIATE_H
