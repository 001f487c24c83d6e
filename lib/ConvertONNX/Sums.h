//===- Sums.h - Accumulation formats of ONNX ops ----------------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_SUMS_H
#define BINADE_LIB_CONVERTONNX_SUMS_H

#include "binade/ONNX/Schemas.h"

namespace onnx {
class NodeProto;
} // namespace onnx

namespace mlir::binade::convert {

/// Whether the node sums or averages elements in the type of its operands, so
/// that it needs f32 operands to sum in f32. Not true for matmuls and
/// convolutions, which runtimes accumulate in f32, nor for norms with an
/// attribute for the type of their sums.
bool sumsInOwnType(const ::onnx::NodeProto &node, const OperatorSets &sets);

/// Whether an attribute sets the format of everything in the node but its
/// matmuls, so that its operands may have the format of these.
bool followsMatmuls(const ::onnx::NodeProto &node);

/// Sets the attribute that makes a node with narrow operands sum in f32, if its
/// op has one and the node does not set it.
void setSumsWide(::onnx::NodeProto &node);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_SUMS_H
