//===- WithoutElements.h - tensors with an axis of length 0 -----*- C++ -*-===//

#ifndef BINADE_IR_WITHOUTELEMENTS_H
#define BINADE_IR_WITHOUTELEMENTS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Whether `type` is a tensor without elements.
bool hasNoElements(Type type);

/// A constant of zeros of each type.
SmallVector<Value> buildZeros(ImplicitLocOpBuilder &b, TypeRange types);

/// The values that replace the results of `op`, which reads a tensor without
/// elements and yet has a result with some. A sum over nothing is 0: where the
/// op does not say otherwise that is its decomposition, and of a primitive
/// zeros. Fails, after an error, where the op needs an element that is not
/// there.
FailureOr<SmallVector<Value>> buildWithoutElements(ImplicitLocOpBuilder &b,
                                                   KernelOpInterface op);

} // namespace mlir::binade

#endif // BINADE_IR_WITHOUTELEMENTS_H
