//===- ScaleGradients.h - Gradients in f16 are scaled -----------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_SCALEGRADIENTS_H
#define BINADE_LIB_CONVERTONNX_SCALEGRADIENTS_H

#include "Formats.h"

namespace mlir::binade::convert {

/// Nodes on which the graph's output `loss` does not depend; none where there
/// is no such output.
llvm::BitVector findBackward(const ::onnx::GraphProto &graph, StringRef loss);

/// Multiplies by the scale where the backward part becomes linear in the loss'
/// gradient, and divides by it, in f32, what something else reads: outputs, and
/// the optimizer. What reads that is f32 from then on.
///
/// What a node computes of scaled operands is scaled because it is linear in
/// them; so the result is right whichever place is found, but for rounding.
/// `outside` keeps its values under their names.
void scaleGradients(PlannedGraph &planned, UniqueNames &names,
                    const llvm::StringSet<> &outside,
                    const GradientScale &scale, ConvertReport &report);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_SCALEGRADIENTS_H
