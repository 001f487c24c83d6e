//===- InlineFunctions.h - Functions of a model, in its graph ---*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_INLINEFUNCTIONS_H
#define BINADE_LIB_IMPORT_ONNX_INLINEFUNCTIONS_H

#include "Model.h"

namespace mlir::binade::importer {

/// Replaces each node of the graph that calls a function of the model by the
/// function's nodes; names of values and nodes get the caller's before them.
LogicalResult inlineFunctions(Model &model);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_INLINEFUNCTIONS_H
