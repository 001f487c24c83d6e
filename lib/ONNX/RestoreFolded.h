//===- RestoreFolded.h - Folded transposes and expansions -------*- C++ -*-===//

#ifndef BINADE_LIB_ONNX_RESTOREFOLDED_H
#define BINADE_LIB_ONNX_RESTOREFOLDED_H

#include "ParameterEditor.h"
#include "binade/ONNX/TorchExport.h"

namespace mlir::binade {

/// Restores parameters of which the file has only what the exporter's optimizer
/// computed from them.
///
/// - The transpose of a matrix: `x @ embedding.weight.T`.
/// - A class token that is expanded to the batch: `token.expand(n, -1, -1)`,
///   whose rows along the first axis are equal. If its elements are equal along
///   another axis, too, as zeros are, its shape is unknown, and nothing is
///   restored.
///
/// The nodes that computed the values are added again.
LogicalResult restoreFolded(Model &model, const TorchSignature &signature,
                            ParameterEditor &editor);

} // namespace mlir::binade

#endif // BINADE_LIB_ONNX_RESTOREFOLDED_H
