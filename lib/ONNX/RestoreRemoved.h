//===- RestoreRemoved.h - Nodes that PyTorch's exporter removed -*- C++ -*-===//

#ifndef BINADE_LIB_ONNX_RESTOREREMOVED_H
#define BINADE_LIB_ONNX_RESTOREREMOVED_H

#include "binade/ONNX/TorchExport.h"

namespace mlir::binade {

/// Restores nodes that the exporter's optimizer removed because they do not
/// change the outputs of inference.
///
/// - `detach()` is an Identity: without it, gradients flow through the value.
///   An Identity that stops them is added before each node whose line of the
///   traced program reads such a value.
/// - Equal nodes are merged, also those of two dropouts of the same value,
/// which
///   draw different masks, and those that differ only in a removed `detach()`.
///   This is an error.
///
/// Fails if a line does not tell which input of its nodes is detached.
LogicalResult restoreRemoved(Model &model, const TorchSignature &signature);

} // namespace mlir::binade

#endif // BINADE_LIB_ONNX_RESTOREREMOVED_H
