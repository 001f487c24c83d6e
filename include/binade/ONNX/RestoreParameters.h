//===- RestoreParameters.h - Undo what PyTorch's exporter merged *- C++ -*-===//

#ifndef BINADE_ONNX_RESTOREPARAMETERS_H
#define BINADE_ONNX_RESTOREPARAMETERS_H

#include "binade/ONNX/Tensors.h"

namespace mlir::binade {

/// Gives a model that `torch.onnx.export` wrote the parameters of its module
/// again, under their names and in their shapes. By default the exporter stores
/// parameters with equal initial values once, stores weights of linear layers
/// transposed, and writes batch norm in inference form.
///
/// - A node that reads another parameter than the line of the traced program
///   that it computes gets a copy with the right name.
/// - A transposed weight becomes a parameter and a Transpose node.
/// - A bias of zeros, which the exporter removed, is added.
/// - Batch norm that was traced in training mode gets `training_mode`.
/// - Identity nodes of `detach()`, which the exporter removed, are added;
///   dropouts that it merged are an error.
///
/// Without the traced program, as in files of the TorchScript exporter, names
/// come from the exporter's Identity nodes and from the names of nodes.
///
/// If parameters of the module are still missing, because they were folded into
/// constants, or if nodes read constants that were computed from parameters,
/// this fails with an error that lists the parameters and says how to export;
/// except for those that match a glob in `allowed`.
LogicalResult restoreParameters(Model &model, TensorReader &reader,
                                ArrayRef<std::string> allowed);

} // namespace mlir::binade

#endif // BINADE_ONNX_RESTOREPARAMETERS_H
