//===- CheckNode.h - Checks that a node is valid ONNX -----------*- C++ -*-===//

#ifndef BINADE_LIB_ONNX_CHECKNODE_H
#define BINADE_LIB_ONNX_CHECKNODE_H

#include "binade/ONNX/Model.h"
#include "binade/ONNX/Schemas.h"

namespace onnx {
class FunctionProto;
} // namespace onnx

namespace mlir::binade {

/// Fails unless the node has the inputs, outputs and attributes that `schema`
/// declares.
LogicalResult checkSchema(Location loc, const ::onnx::NodeProto &node,
                          const OpSchema &schema, int64_t opset);

/// Fails unless the subgraphs of If, Loop and Scan have as many inputs and
/// outputs as the node passes to them and reads from them.
LogicalResult checkBranches(Location loc, const ::onnx::NodeProto &node,
                            int64_t opset);

/// Fails unless the attribute has a name, a type and no value of another type.
/// `function` is the function that the node is in; null for other nodes.
LogicalResult checkAttribute(Location loc,
                             const ::onnx::AttributeProto &attribute,
                             const ::onnx::FunctionProto *function);

} // namespace mlir::binade

#endif // BINADE_LIB_ONNX_CHECKNODE_H
