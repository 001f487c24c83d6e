//===- Module.cpp - Fuzz the parser of textual modules --------------------===//

#include "Check.h"
#include "Context.h"
#include "binade/IR/ParseModule.h"

void binade::fuzz::readModule(Bytes bytes) {
  auto module = mlir::binade::parseModuleText(toText(bytes).str(), "f.mlir",
                                              Context::get().mlir);
  if (!module)
    checkError(module.error());
}
