//===- Differentiate.h - Reverse-mode differentiation -----------*- C++ -*-===//

#ifndef BINADE_AUTODIFF_DIFFERENTIATE_H
#define BINADE_AUTODIFF_DIFFERENTIATE_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// Adds the gradients of result `loss` of `function`, which has one element, as
/// a result for each parameter that the loss depends on. Emits an error if it
/// depends on parameters through an op without derivative.
LogicalResult differentiate(func::FuncOp function, unsigned loss);

} // namespace mlir::binade

#endif // BINADE_AUTODIFF_DIFFERENTIATE_H
