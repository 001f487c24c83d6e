//===- OutputGradients.h - gradients of what nodes compute ------*- C++ -*-===//

#ifndef BINADE_LIB_MONITOR_OUTPUTGRADIENTS_H
#define BINADE_LIB_MONITOR_OUTPUTGRADIENTS_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::binade {

/// What each node of the model computes, by its name.
using NodeOutputs = llvm::MapVector<StringRef, Value>;

/// The gradient of the loss by each of `outputs`, as the backward part of
/// `step` has it: multiplied by the loss scale. A node is left out where no
/// gradient reaches it, or none can be told apart as its own.
///
/// Nobody keeps account of which value is the gradient of which. But the
/// adjoint of an op has the op's node: what enters the first op of a node is
/// the gradient of its output. A node without ops of its own in the backward
/// part, such as a sum, hands on the gradient of its output, and is seen by an
/// operand that it alone reads.
NodeOutputs findOutputGradients(func::FuncOp step, const NodeOutputs &outputs);

} // namespace mlir::binade

#endif // BINADE_LIB_MONITOR_OUTPUTGRADIENTS_H
