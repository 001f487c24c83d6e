//===- Accumulators.h - Gradients of in-place accumulators ------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_ACCUMULATORS_H
#define BINADE_LIB_IMPORT_ONNX_ACCUMULATORS_H

#include "binade/ONNX/Model.h"

namespace mlir::binade::importer {

/// Turns the gradients of an ONNX Runtime training model into outputs. Such a
/// model adds gradients to buffers in place, by `InPlaceAccumulatorV2(buffer,
/// gradient[, overwrite])`, whose output is only a completion flag. If nothing
/// else uses buffer and output, the output becomes the gradient and the buffer
/// is removed: the step itself accumulates the gradients of several batches
/// (`--accumulate`).
void exposeGradients(Model &model);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_ACCUMULATORS_H
