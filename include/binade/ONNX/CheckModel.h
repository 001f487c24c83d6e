//===- CheckModel.h - Whether a file is valid ONNX --------------*- C++ -*-===//

#ifndef BINADE_ONNX_CHECKMODEL_H
#define BINADE_ONNX_CHECKMODEL_H

#include "binade/ONNX/Tensors.h"

namespace mlir::binade {

/// Refuses a file that ONNX does not allow, whether or not Binade reads what it
/// holds: every command that reads a model calls this before anything else.
/// Checked are operator sets, names (each has one definition, and none depends
/// on itself), the inputs, outputs and attributes that the standard gives each
/// op, stored tensors in the file and beside it, graphs inside of nodes, and
/// functions. Shapes and types of computed values are checked by the import of
/// the nodes.
///
/// `isRuntimeOp(domain, op)` tells whether an op belongs to an operator set of
/// a runtime, which models use without importing it.
LogicalResult
checkModel(Model &model, TensorReader &tensors,
           function_ref<bool(StringRef domain, StringRef op)> isRuntimeOp);

} // namespace mlir::binade

#endif // BINADE_ONNX_CHECKMODEL_H
