//===- Order.h - Nodes sorted, producers first ------------------*- C++ -*-===//

#ifndef BINADE_ONNX_ORDER_H
#define BINADE_ONNX_ORDER_H

#include "binade/ONNX/Model.h"
#include "binade/ONNX/Subgraphs.h"

namespace mlir::binade {

/// Numbers of the nodes that the graph's outputs depend on: producers before
/// their users, otherwise in the order of the file. Fails on cycles, names that
/// nothing defines and names that are defined twice, among all nodes.
/// For a subgraph, `isOuter` tells which names it may read from enclosing
/// graphs, and `prefix` precedes the names of its nodes in errors.
FailureOr<SmallVector<unsigned>>
sortNodes(const Model &model, const ::onnx::GraphProto &graph,
          function_ref<bool(StringRef)> isOuter = {}, StringRef prefix = "");

} // namespace mlir::binade

#endif // BINADE_ONNX_ORDER_H
