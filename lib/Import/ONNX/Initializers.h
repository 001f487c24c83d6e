//===- Initializers.h - Parameters, buffers and constants -------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_INITIALIZERS_H
#define BINADE_LIB_IMPORT_ONNX_INITIALIZERS_H

#include "Graph.h"
#include "binade/Import/ONNX/Import.h"

namespace mlir::binade::importer {

/// Gives every initializer that `order` uses a value: parameters and buffers
/// become arguments, the others constants. Inputs whose initial values follow a
/// rule become arguments too.
LogicalResult addInitializers(Graph &graph, const Metadata &metadata,
                              ArrayRef<unsigned> order,
                              const ImportOptions &options,
                              ImportReport &report);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_INITIALIZERS_H
