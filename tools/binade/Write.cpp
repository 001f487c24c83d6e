//===- Write.cpp - What the driver writes ---------------------------------===//

#include "Write.h"
#include "binade/Container/AtomicFile.h"
#include <iostream>

using ::binade::Result;

Result<void> writeText(const std::string &path, std::string_view text) {
  if (path != "-")
    return binade::writeTextFile(path, text);
  std::cout << text << std::flush;
  return {};
}

Result<void> writeModule(const std::string &path, mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, mlir::OpPrintingFlags().enableDebugInfo());
  return writeText(path, text + "\n");
}
