//===- RestoreTrainingMode.h - Batch norm of PyTorch's exporter -*- C++ -*-===//

#ifndef BINADE_LIB_ONNX_RESTORETRAININGMODE_H
#define BINADE_LIB_ONNX_RESTORETRAININGMODE_H

#include "binade/ONNX/Model.h"

namespace mlir::binade {

/// Sets `training_mode` of each BatchNormalization node that was traced in
/// training mode, for which `torch.onnx.export` writes inference form. Warns if
/// others remain, because their running statistics do not change.
void restoreTrainingMode(Model &model);

} // namespace mlir::binade

#endif // BINADE_LIB_ONNX_RESTORETRAININGMODE_H
