//===- CheckModel.h - Checks that a file is valid ONNX ----------*- C++ -*-===//

#ifndef BINADE_ONNX_CHECKMODEL_H
#define BINADE_ONNX_CHECKMODEL_H

#include "binade/ONNX/Tensors.h"

namespace mlir::binade {

/// Fails, with an error at the first violation, unless the file is valid ONNX.
/// Every command that reads a model calls this first, and it also checks parts
/// of the file that Binade does not support. Checks operator sets, names (each
/// is defined once and does not depend on itself), the inputs, outputs and
/// attributes that the standard declares for each op, tensors stored in the
/// file and as external data, subgraphs, and functions. Shapes and types of
/// computed values are checked when the nodes are imported.
///
/// `isRuntimeOp(domain, op)` returns whether an op belongs to the operator set
/// of a runtime such as onnxruntime, which models use without importing it.
LogicalResult
checkModel(Model &model, TensorReader &tensors,
           function_ref<bool(StringRef domain, StringRef op)> isRuntimeOp);

} // namespace mlir::binade

#endif // BINADE_ONNX_CHECKMODEL_H
