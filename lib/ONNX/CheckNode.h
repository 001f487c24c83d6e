//===- CheckNode.h - Whether a node is one of ONNX --------------*- C++ -*-===//

#ifndef BINADE_LIB_ONNX_CHECKNODE_H
#define BINADE_LIB_ONNX_CHECKNODE_H

#include "binade/ONNX/Model.h"
#include "binade/ONNX/Schemas.h"

namespace onnx {
class FunctionProto;
} // namespace onnx

namespace mlir::binade {

/// Fails unless the node has the inputs, outputs and attributes that `schema`
/// gives it.
LogicalResult checkSchema(Location loc, const ::onnx::NodeProto &node,
                          const OpSchema &schema, int64_t opset);

/// Fails unless graphs inside of If, Loop and Scan have the inputs and outputs
/// that the node gives them and takes.
LogicalResult checkBranches(Location loc, const ::onnx::NodeProto &node,
                            int64_t opset);

/// Fails unless the attribute has a name, a type and no value of another type.
/// `function` is the one that the node is in, if any.
LogicalResult checkAttribute(Location loc,
                             const ::onnx::AttributeProto &attribute,
                             const ::onnx::FunctionProto *function);

} // namespace mlir::binade

#endif // BINADE_LIB_ONNX_CHECKNODE_H
