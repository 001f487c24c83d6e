//===- InlineFunctions.h - Inlining of model functions ----------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_INLINEFUNCTIONS_H
#define BINADE_LIB_IMPORT_ONNX_INLINEFUNCTIONS_H

#include "binade/ONNX/Model.h"

namespace mlir::binade::importer {

/// Replaces each node that calls a function of the model by the function's
/// nodes. Names of values and nodes are prefixed by the name of the calling
/// node.
LogicalResult inlineFunctions(Model &model);

/// Inlines functions in a model that will be converted and written. Calls of
/// functions that import other operator sets than the graph remain, and
/// functions that are no longer called are removed. After an error the graph is
/// unchanged.
LogicalResult inlineForConversion(Model &model);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_INLINEFUNCTIONS_H
