//===- InlineFunctions.h - Functions of a model, in its graph ---*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_INLINEFUNCTIONS_H
#define BINADE_LIB_IMPORT_ONNX_INLINEFUNCTIONS_H

#include "binade/ONNX/Model.h"

namespace mlir::binade::importer {

/// Replaces each node of the graph that calls a function of the model by the
/// function's nodes; names of values and nodes get the caller's before them.
LogicalResult inlineFunctions(Model &model);

/// The same, to write the model again: calls of functions that are written in
/// other operator sets than the graph stay, and functions that nothing calls
/// any more are removed. After an error the graph is as it was.
LogicalResult inlineForConversion(Model &model);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_INLINEFUNCTIONS_H
