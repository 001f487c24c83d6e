//===- Order.h - Nodes in topological order ---------------------*- C++ -*-===//

#ifndef BINADE_ONNX_ORDER_H
#define BINADE_ONNX_ORDER_H

#include "binade/ONNX/Model.h"
#include "binade/ONNX/Subgraphs.h"

namespace mlir::binade {

/// Returns the indices of the nodes that the graph's outputs depend on:
/// producers before their users, otherwise in the order of the file. Fails if
/// any node is part of a cycle, reads an undefined name or defines a name
/// again. For a subgraph, `isOuter` returns whether enclosing graphs define a
/// name, and `prefix` precedes the names of its nodes in errors.
FailureOr<SmallVector<unsigned>>
sortNodes(const Model &model, const ::onnx::GraphProto &graph,
          function_ref<bool(StringRef)> isOuter = {}, StringRef prefix = "");

} // namespace mlir::binade

#endif // BINADE_ONNX_ORDER_H
