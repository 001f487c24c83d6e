//===- WriteOnnx.h - ONNX from binade ops -----------------------*- C++ -*-===//

#ifndef BINADE_EXPORT_WRITEONNX_H
#define BINADE_EXPORT_WRITEONNX_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::binade {

/// The training step of `module`, or what comes before it: the gradients, or
/// the forward part; else its one public function. As the bytes of an ONNX
/// file.
///
/// Arguments with stored values are initializers, and those in files stay
/// there: the ONNX file has to lie where the module's does. Each op is computed
/// in f32 and rounded once, as the IR has it. Ops without a node are written by
/// their decomposition; one without that either is an error.
FailureOr<std::string> writeOnnx(ModuleOp module);

} // namespace mlir::binade

#endif // BINADE_EXPORT_WRITEONNX_H
