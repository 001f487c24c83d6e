//===- OutputGradients.h - Gradients of the outputs of nodes ----*- C++ -*-===//

#ifndef BINADE_LIB_MONITOR_OUTPUTGRADIENTS_H
#define BINADE_LIB_MONITOR_OUTPUTGRADIENTS_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::binade {

/// The output of each node of the model, by the node's name.
using NodeOutputs = llvm::MapVector<StringRef, Value>;

/// Finds the gradient of the loss with respect to each of `outputs` in the
/// backward pass of `step`, times the loss scale. A node is missing where no
/// gradient reaches it, or its gradient cannot be identified.
///
/// The IR does not record which value is the gradient of which output, but the
/// ops of an adjoint carry the name of their node. So the gradient that the
/// first op of a node reads is that of its output. A node without backward ops,
/// such as a sum, passes the gradient of its output on: it equals that of an
/// operand that only this node reads.
NodeOutputs findOutputGradients(func::FuncOp step, const NodeOutputs &outputs);

} // namespace mlir::binade

#endif // BINADE_LIB_MONITOR_OUTPUTGRADIENTS_H
