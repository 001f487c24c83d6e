//===- ScaleGradients.h - Loss scaling of f16 gradients ---------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_SCALEGRADIENTS_H
#define BINADE_LIB_CONVERTONNX_SCALEGRADIENTS_H

#include "Formats.h"

namespace mlir::binade::convert {

/// Returns the nodes on which the graph's output `loss` does not depend; no
/// node if there is no such output.
llvm::BitVector findBackward(const ::onnx::GraphProto &graph, StringRef loss);

/// Multiplies by the scale where the backward pass becomes linear in the
/// gradient of the loss, and divides by it, in f32, before outputs and the
/// optimizer, which then compute in f32.
///
/// Nodes between these places are linear, so that the results are right, up to
/// rounding, wherever the scale is inserted. Values in `outside` keep their
/// values under their names.
void scaleGradients(PlannedGraph &planned, UniqueNames &names,
                    const llvm::StringSet<> &outside,
                    const GradientScale &scale, ConvertReport &report);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_SCALEGRADIENTS_H
