//===- RestoreScript.h - Parameters of TorchScript exports ------*- C++ -*-===//

#ifndef BINADE_LIB_ONNX_RESTORESCRIPT_H
#define BINADE_LIB_ONNX_RESTORESCRIPT_H

#include "ParameterEditor.h"

namespace mlir::binade {

/// Restores the parameters of a model that PyTorch's TorchScript exporter
/// wrote. It stores equal parameters once, with an Identity node for each of
/// the others, and folds the transposition of a linear layer's weight into a
/// tensor such as `onnx::MatMul_387`, which the layers with equal weights
/// share.
LogicalResult restoreScriptParameters(ParameterEditor &editor);

} // namespace mlir::binade

#endif // BINADE_LIB_ONNX_RESTORESCRIPT_H
