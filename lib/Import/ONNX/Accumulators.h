//===- Accumulators.h - Gradients that are added to buffers -----*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_ACCUMULATORS_H
#define BINADE_LIB_IMPORT_ONNX_ACCUMULATORS_H

#include "binade/ONNX/Model.h"

namespace mlir::binade::importer {

/// Makes gradients outputs of a training model of ONNX Runtime, which adds them
/// to buffers in place: `InPlaceAccumulatorV2(buffer, gradient[, overwrite])`,
/// whose output only says that it was done. Where buffer and output are used by
/// nothing else, the output becomes the gradient itself, and the graph loses
/// the buffer; adding up batches is the step's (`--accumulate`).
void exposeGradients(Model &model);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_ACCUMULATORS_H
