//===- DefineInitializers.h - Stored tensors become values ------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_DEFINEINITIALIZERS_H
#define BINADE_LIB_IMPORT_ONNX_DEFINEINITIALIZERS_H

#include "Graph.h"
#include "binade/Import/ONNX/Import.h"
#include "binade/ONNX/Initializers.h"

namespace mlir::binade::importer {

/// Gives each initializer its value in `graph`: parameters and buffers become
/// arguments, the others constants. `report` counts them.
LogicalResult defineInitializers(Initializers &initializers,
                                 const Metadata &metadata, Graph &graph,
                                 ImportReport &report);

/// Emits a remark for each parameter that nodes of `order` look up rows of, if
/// exactly one of its rows is 0: PyTorch's `padding_idx` leaves such a row, and
/// the model does not say whether it was used.
void remarkOnPadding(const Initializers &initializers, const Model &model,
                     const Metadata &metadata, ArrayRef<unsigned> order,
                     TensorReader &reader);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_DEFINEINITIALIZERS_H
