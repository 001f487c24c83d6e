//===- ImportNode.h - Import of one node ------------------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_IMPORTNODE_H
#define BINADE_LIB_IMPORT_ONNX_IMPORTNODE_H

#include "Graph.h"

namespace mlir::binade::importer {

/// Fails, with one error that lists all of them, if nodes `order` of `graph`
/// have ops that cannot be imported.
LogicalResult checkOps(const Model &model, const ::onnx::GraphProto &graph,
                       ArrayRef<unsigned> order);

/// Builds the ops of `proto`, node `index` of its graph, and defines its
/// outputs. The op table must have a row for the node's op, and its inputs must
/// have values. Folds the ops if all inputs are constants. After an error, some
/// ops of the node may remain.
LogicalResult importNode(Graph &graph, const ::onnx::NodeProto &proto,
                         unsigned index);

/// Whether the inputs of the node have element types that ONNX does not allow.
bool violatesTypes(Graph &graph, const ::onnx::NodeProto &proto);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_IMPORTNODE_H
