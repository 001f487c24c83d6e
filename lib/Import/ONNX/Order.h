//===- Order.h - The nodes to import, producers first -----------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_ORDER_H
#define BINADE_LIB_IMPORT_ONNX_ORDER_H

#include "Model.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::binade::importer {

/// Numbers of the nodes that the graph's outputs depend on: producers before
/// their users, otherwise in the order of the file. Fails on cycles, names that
/// nothing defines and names that are defined twice, among all nodes.
/// For a subgraph, `isOuter` tells which names it may read from enclosing
/// graphs, and `prefix` precedes the names of its nodes in errors.
FailureOr<SmallVector<unsigned>>
sortNodes(const Model &model, const ::onnx::GraphProto &graph,
          function_ref<bool(StringRef)> isOuter = {}, StringRef prefix = "");

/// Names that these nodes of `graph` or its outputs read.
llvm::StringSet<> collectUsed(const ::onnx::GraphProto &graph,
                              ArrayRef<unsigned> order);

/// Calls `visit` with each graph that is an attribute of `node`.
void forEachGraph(const ::onnx::NodeProto &node,
                  function_ref<void(const ::onnx::GraphProto &)> visit);

/// Whether an attribute of `node` is a graph: a branch, the body of a loop.
bool holdsGraphs(const ::onnx::NodeProto &node);

/// Calls `visit` with the names that `node` reads: its inputs, and the outer
/// values that its subgraphs read.
void forEachRead(const ::onnx::NodeProto &node,
                 function_ref<void(const std::string &)> visit);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_ORDER_H
