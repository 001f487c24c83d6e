//===- Onnx.cpp - Fuzz the ONNX importer ----------------------------------===//

#include "Context.h"
#include "binade/Import/ONNX/Import.h"

void binade::fuzz::readOnnx(Bytes bytes) {
  Context &context = Context::get();
  llvm::MemoryBufferRef file(toText(bytes), BINADE_TEST_INPUTS "/f.onnx");
  mlir::binade::ImportOptions options;
  auto module = mlir::binade::importOnnx(file, options, &context.mlir);
  context.checkResult(failed(module));
}
