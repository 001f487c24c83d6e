//===- Inference.h - Training graphs as inference graphs --------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_INFERENCE_H
#define BINADE_LIB_EXPORT_INFERENCE_H

#include "binade/Export/ExportTrained.h"
#include "binade/ONNX/Model.h"

namespace mlir::binade {

/// Switches Dropout and BatchNormalization to inference: no random values, and
/// running statistics.
void makeInference(::onnx::GraphProto &graph);

/// Sets the outputs of the graph as the options request. Fails if one does not
/// exist.
LogicalResult selectOutputs(Model &model, const ExportOptions &options);

/// Removes nodes, initializers and inputs that no output depends on. Inputs
/// that were unused before are kept.
void removeUnused(::onnx::GraphProto &graph);

/// Removes from the metadata names that the graph no longer has, and rules of
/// tensors that now have values.
void updateMetadata(::onnx::ModelProto &model);

} // namespace mlir::binade

#endif // BINADE_LIB_EXPORT_INFERENCE_H
