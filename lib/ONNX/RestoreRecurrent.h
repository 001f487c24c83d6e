//===- RestoreRecurrent.h - Folded weights of LSTM and GRU ------*- C++ -*-===//

#ifndef BINADE_LIB_ONNX_RESTORERECURRENT_H
#define BINADE_LIB_ONNX_RESTORERECURRENT_H

#include "ParameterEditor.h"
#include "binade/ONNX/TorchExport.h"

namespace mlir::binade {

/// Restores the parameters of LSTM and GRU layers.
///
/// ONNX stores the gates in another order than PyTorch, the two directions in
/// one tensor and both biases in one. The exporter writes nodes that compute
/// such a tensor from the parameters, and its optimizer folds them into a
/// constant. Each element of the constant is one of a parameter, so that the
/// parameters can be read from it: the traced program names them, layer by
/// layer. The nodes are added again.
LogicalResult restoreRecurrent(Model &model, const TorchSignature &signature,
                               ParameterEditor &editor);

} // namespace mlir::binade

#endif // BINADE_LIB_ONNX_RESTORERECURRENT_H
