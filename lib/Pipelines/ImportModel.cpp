//===- ImportModel.cpp - From a file to what the next phase takes ---------===//

#include "binade/Import/ONNX/Import.h"
#include "binade/Pipelines/Pipelines.h"

using namespace mlir;
using namespace mlir::binade;

/// Runs the passes of the phase on what the importer made.
static FailureOr<OwningOpRef<ModuleOp>>
finish(FailureOr<OwningOpRef<ModuleOp>> module) {
  if (failed(module))
    return failure();
  PassManager pm((*module)->getContext());
  buildPipeline(pm, CompilerPhase::Import, {});
  if (failed(pm.run(**module)))
    return failure();
  return module;
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::binade::importModel(StringRef path, const ImportOptions &options,
                          MLIRContext *context, ImportReport *report) {
  return finish(importOnnx(path, options, context, report));
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::binade::importModel(llvm::MemoryBufferRef file,
                          const ImportOptions &options, MLIRContext *context,
                          ImportReport *report) {
  return finish(importOnnx(file, options, context, report));
}
