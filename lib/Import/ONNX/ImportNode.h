//===- ImportNode.h - One node becomes ops ----------------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_IMPORTNODE_H
#define BINADE_LIB_IMPORT_ONNX_IMPORTNODE_H

#include "Graph.h"

namespace mlir::binade::importer {

/// Reports every kind of op among the nodes `order` of `graph` that cannot be
/// imported.
LogicalResult checkOps(const Model &model, const ::onnx::GraphProto &graph,
                       ArrayRef<unsigned> order);

/// Builds the ops of `proto`, node `index` of its graph, whose op has a row of
/// the table and whose inputs have values, and gives its outputs their values.
/// What reads constants alone is computed. After an error ops may be left
/// behind.
LogicalResult importNode(Graph &graph, const ::onnx::NodeProto &proto,
                         unsigned index);

/// Whether inputs of the node have element types that ONNX does not allow it.
bool violatesTypes(Graph &graph, const ::onnx::NodeProto &proto);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_IMPORTNODE_H
