//===- DefineInitializers.h - Values of initializers ------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_DEFINEINITIALIZERS_H
#define BINADE_LIB_IMPORT_ONNX_DEFINEINITIALIZERS_H

#include "Graph.h"
#include "binade/Import/ONNX/Import.h"
#include "binade/ONNX/Initializers.h"

namespace mlir::binade::importer {

/// Defines the value of each initializer in `graph`: parameters and buffers
/// become arguments, the others constants. Counts them in `report`.
LogicalResult defineInitializers(Initializers &initializers,
                                 const Metadata &metadata, Graph &graph,
                                 ImportReport &report);

/// Emits a remark for each embedding table (a parameter that a Gather among the
/// nodes `order` reads) with exactly one row of zeros. PyTorch's `padding_idx`
/// causes such a row, but the model does not tell whether it was used.
void remarkOnPadding(const Initializers &initializers, const Model &model,
                     const Metadata &metadata, ArrayRef<unsigned> order,
                     TensorReader &reader);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_DEFINEINITIALIZERS_H
