//===- AvoidFusions.h - Avoidance of wrong fusions --------------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_AVOIDFUSIONS_H
#define BINADE_LIB_CONVERTONNX_AVOIDFUSIONS_H

#include "binade/ONNX/Schemas.h"

namespace onnx {
class GraphProto;
} // namespace onnx

namespace mlir::binade::convert {

/// Replaces the last `Add` of decomposed layer norms that compute in f32 on a
/// narrow value by `Sum`, in `graph` and its subgraphs. onnxruntime would fuse
/// such a norm into LayerNormalization, drop the cast before it, and reject the
/// node because its scale has another type.
void avoidFusions(::onnx::GraphProto &graph, const OperatorSets &sets);

/// Whether a MatMul in `graph` or its subgraphs has dequantized FP8 operands.
/// onnxruntime fuses it with the DequantizeLinear nodes into a matmul that
/// supports integers only.
bool hasFp8Matmul(const ::onnx::GraphProto &graph);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_AVOIDFUSIONS_H
