//===- Inference.h - From a graph for training to its use -------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_INFERENCE_H
#define BINADE_LIB_EXPORT_INFERENCE_H

#include "binade/Export/ExportTrained.h"
#include "binade/ONNX/Model.h"

namespace mlir::binade {

/// Gives Dropout and BatchNormalization the form in which they draw nothing and
/// use running statistics.
void makeInference(::onnx::GraphProto &graph);

/// Sets the outputs to those that the options ask for.
LogicalResult selectOutputs(Model &model, const ExportOptions &options);

/// Removes what no output depends on any more: nodes, initializers, inputs. Of
/// what nothing read in the first place inputs stay.
void removeUnused(::onnx::GraphProto &graph);

/// Removes names from the metadata that are not those of `graph` any more, and
/// rules for tensors which have a value now.
void updateMetadata(::onnx::ModelProto &model);

} // namespace mlir::binade

#endif // BINADE_LIB_EXPORT_INFERENCE_H
