//===- AvoidFusions.h - Nodes that runtimes fuse wrongly --------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_AVOIDFUSIONS_H
#define BINADE_LIB_EXPORT_AVOIDFUSIONS_H

#include "binade/IR/OnnxSchemas.h"

namespace onnx {
class GraphProto;
} // namespace onnx

namespace mlir::binade::convert {

/// Writes the last addition of decomposed layer norms that compute in f32 on a
/// narrow value as `Sum`, in `graph` and those inside of it. onnxruntime makes
/// LayerNormalization of `Add` there, drops the cast before it, and then
/// refuses the node, because its scale has another type.
void avoidFusions(::onnx::GraphProto &graph, const OperatorSets &sets);

/// Whether a MatMul in `graph`, or in one inside of it, multiplies what codes
/// of FP8 stand for. onnxruntime fuses it with the nodes that read the codes,
/// and has that product for integers only.
bool multipliesCodes(const ::onnx::GraphProto &graph);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_AVOIDFUSIONS_H
