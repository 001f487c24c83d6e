//===- WriteOnnx.h - Export of modules as ONNX ------------------*- C++ -*-===//

#ifndef BINADE_EXPORT_WRITEONNX_H
#define BINADE_EXPORT_WRITEONNX_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::binade {

/// Returns the bytes of an ONNX file with one function of `module`: the first
/// that exists of `@step`, `@gradient`, `@forward` and its only public
/// function.
///
/// Arguments with initial values become initializers. Those in files become
/// external data of these files, so the ONNX file must be in the module's
/// directory. Each op is computed in f32 and rounded once, as the IR defines.
/// Ops without an ONNX node are decomposed; it is an error if that is not
/// possible.
FailureOr<std::string> writeOnnx(ModuleOp module);

} // namespace mlir::binade

#endif // BINADE_EXPORT_WRITEONNX_H
