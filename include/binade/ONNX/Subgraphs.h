//===- Subgraphs.h - Graphs in attributes of nodes --------------*- C++ -*-===//
//
// The branches of an If and the bodies of loops are graphs that are attributes
// of a node. They read values of the enclosing graphs by name.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_ONNX_SUBGRAPHS_H
#define BINADE_ONNX_SUBGRAPHS_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringSet.h"
#include <string>

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
} // namespace onnx

namespace mlir::binade {

/// Calls `visit` with each graph that is an attribute of `node`.
void forEachGraph(const ::onnx::NodeProto &node,
                  function_ref<void(const ::onnx::GraphProto &)> visit);

/// Calls `visit` with the subgraphs of the nodes of `graph`, at any depth.
void forEachNestedGraph(const ::onnx::GraphProto &graph,
                        function_ref<void(const ::onnx::GraphProto &)> visit);

/// Returns whether an attribute of `node` is a graph.
bool hasSubgraphs(const ::onnx::NodeProto &node);

/// Calls `visit` with the names that `node` reads: its inputs, and the outer
/// values that its subgraphs read.
void forEachRead(const ::onnx::NodeProto &node,
                 function_ref<void(const std::string &)> visit);

/// Returns the names that the nodes `order` of `graph` or its outputs read.
llvm::StringSet<> collectUsed(const ::onnx::GraphProto &graph,
                              ArrayRef<unsigned> order);

/// Returns the names of values in the main graph that something other than an
/// input of its nodes reads: its outputs, values that a subgraph returns, and
/// those that the model's training information names. The set may contain
/// values that nothing reads.
llvm::StringSet<> findReadOutside(const ::onnx::ModelProto &model);

/// Returns the names that subgraphs of the nodes of `graph` read.
llvm::StringSet<> findReadInside(const ::onnx::GraphProto &graph);

} // namespace mlir::binade

#endif // BINADE_ONNX_SUBGRAPHS_H
